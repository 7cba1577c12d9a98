"""Make a new index for a bookie that goes on serving.

In pieces, each in the storage worker and so between two checkpoints: first the files as they are, then what checkpoints
have added since, again and again, until little is left; the rest, the ledgers' states and the exchange are one piece.
In the meantime no file with blocks is removed, and no compaction runs.

Invariant: the new index takes the old one's place only if every block of every file is intact and found by it, every
ledger with a block has a state, and it finds what the old one finds. Otherwise the old one stays: what it cannot find
is unknown, and what a new one would not name would be absent. A stopped bookie can be put into limbo instead
(`stopped.py`). A file that is missing does not count if the old index does not lead into it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

from bookie_server.disk.sectors import read_file_around
from bookie_server.errors import DiskFailedError, DiskFullError, StorageError
from bookie_server.journal.files import file_ids
from bookie_server.storage.background.jobs import StorageJobs
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock
from bookie_server.storage.index import LEDGER_MAX, Interval
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN, StateFile, decode_state_file
from bookie_server.storage.rebuild.new_index import (
    LogPart,
    NewIndex,
    Rebuilt,
    deleted_in,
    state_in,
    states_in,
)
from bookie_server.storage.segments.log_files import all_log_ids
from bookie_server.storage.segments.places import is_segment, journal_file_id, segment_id
from bookie_server.storage.start.index_directories import put_in_place, remove_old
from bookie_server.storage.start.opening import Parts

_PIECE_BYTES = 1024 * 1024
"""Read at a time: checkpoints wait for no more than this."""
_REST_BYTES_MAX = 4 * 1024 * 1024
"""Left for the last piece."""
_COMPARED_AT_ONCE = 1024
"""Intervals of the old index; as much work as reading a piece."""
_ROUNDS_MAX = 16
"""Even if appends are faster than the rebuild, it comes to its end: the last piece has what is left then."""

logger = logging.getLogger(__name__)


class Rebuild:
    """Call `step` until it returns None, then `finish`; `abandon` it in any case."""

    def __init__(self, parts: Parts) -> None:
        """After a checkpoint of this process."""
        self._parts = parts
        states = self._states()
        self._lost = self._lost_files()
        self._deleted = deleted_in(states.records)
        self._ledgers: set[int] = set()
        """With blocks in the new index."""
        self._ends: dict[int, int] = {}
        """By file: up to where it is in the new index."""
        self._new = NewIndex(parts.disk, parts.paths)
        self._steps = self._all_steps()
        self.result = Rebuilt()

    def _states(self) -> StateFile:
        """All that the index must hold in addition to entries."""
        parts = self._parts
        found = decode_state_file(self._read_states())
        if parts.checkpointer.has_placed or found.generation != parts.checkpointer.generation:
            raise DiskFullError(
                f"the index stays as it is: a full disk holds up a checkpoint, and {parts.paths.states} is not "
                "complete; free space and repeat"
            )
        return found

    def _read_states(self) -> bytes:
        """Nothing if the file is missing: a full disk may have kept the first checkpoint from making it.

        StorageError: it cannot be read. Then, too, the next checkpoint writes all of it.
        """
        parts = self._parts
        try:
            return read_file_around(parts.disk, parts.paths.states)
        except DiskFailedError as error:
            parts.state_log.close()
            if error.missing:
                return b""
            raise StorageError(
                f"the index stays as it is: {error}; repeat, after a checkpoint has written the file anew",
                path=parts.paths.states,
            ) from error

    def _lost_files(self) -> Collection[int]:
        """Files that are missing, and that the old index does not lead into: what was there is deleted, or stored
        elsewhere again. None as long as a directory cannot be listed.

        Their ledger directory was given up, or a full disk kept the states from noting that they were removed.
        """
        parts = self._parts
        with suppress(DiskFailedError, StorageError):
            there = all_log_ids(parts.disk, parts.paths)
            there.update(map(segment_id, file_ids(parts.disk, parts.paths.journal)))
            lost = parts.state_log.ends().keys() - there
            return {each for each in lost if not self._is_in_tail(each) and not parts.index.leads_into(each)}
        return ()

    def _is_in_tail(self, log_id: int) -> bool:
        """Whether it is a journal file that a start would replay."""
        return is_segment(log_id) and journal_file_id(log_id) >= self._parts.checkpointer.mark.file_id

    # ---- reading

    def step(self) -> int | None:
        """Index some more, or prove what was indexed; how many bytes, None when `finish` may follow.

        StorageError: the old index has to stay. DiskFullError.
        """
        return next(self._steps, None)

    def _all_steps(self) -> Iterator[int]:
        self._new.begin()
        for number in range(_ROUNDS_MAX):
            rest = self._rest()
            if number and sum(map(_size, rest)) <= _REST_BYTES_MAX:
                break
            yield from self._build(rest)
        yield from self._compare()

    def _rest(self) -> list[LogPart]:
        """What the files have and the new index lacks."""
        rest: list[LogPart] = []
        for log_id, end in sorted(self._parts.state_log.ends().items()):
            if log_id in self._lost:
                continue
            start = self._ends.get(log_id, 0)
            if end == NOT_KNOWN and self._is_in_tail(log_id):
                raise StorageError(
                    f"the index stays as it is: journal file {journal_file_id(log_id):x} is still written to, and was "
                    "before this bookie noted where blocks end; repeat when the journal is in its next file"
                )
            if start < end:
                rest.append(LogPart(log_id, start, None if end == NOT_KNOWN else end))
        return rest

    def _build(self, rest: list[LogPart]) -> Iterator[int]:
        for part in rest:
            yield from self._pieces(part, self._add)
            self._new.flush()
            yield from self._pieces(part, self._prove)
            self._ends[part.log_id] = NOT_KNOWN if part.end is None else part.end

    def _pieces(self, part: LogPart, do: Callable[[FoundBlock], None]) -> Iterator[int]:
        size = 0
        for found in self._new.blocks(part):
            if isinstance(found, Damage):
                raise _stays(f"{found}, and a new index would not know what was there")
            do(found)
            size += found.block.size
            if size >= _PIECE_BYTES:
                yield size
                size = 0
        yield size

    def _add(self, found: FoundBlock) -> None:
        if found.block.ledger_id not in self._deleted:
            self._ledgers.add(found.block.ledger_id)
            self.result.entries += self._new.add(found)

    def _prove(self, found: FoundBlock) -> None:
        if found.block.ledger_id in self._deleted:
            self._new.prove_absent(found)
        else:
            self._new.prove(found)

    def _compare(self) -> Iterator[int]:
        """The new index finds what the old one finds, as far as that can be read."""
        ledger_id, entry_id, skipped = 0, 0, 1
        while ledger_id <= LEDGER_MAX:
            try:
                old = list(islice(self._parts.index.all_intervals(ledger_id, entry_id), _COMPARED_AT_ONCE))
            except StorageError:
                ledger_id, entry_id, skipped = ledger_id + skipped, 0, 2 * skipped
                continue
            if not old:
                return
            for each in old:
                self._require(*each)
            ledger_id, entry_id, skipped = old[-1][0], old[-1][1].first + 1, 1
            yield _PIECE_BYTES

    def _require(self, ledger_id: int, interval: Interval) -> None:
        if ledger_id in self._deleted:
            return
        if interval.offset < self._ends.get(interval.log_id, 0):
            self._new.prove_interval(ledger_id, interval)
        elif interval.offset >= self._parts.state_log.ends().get(interval.log_id, 0):
            # No later piece would read it either.
            self._states()  # DiskFullError: a checkpoint that is held up may have left it
            raise _stays(
                f"it leads to file {interval.log_id:x}, up to {interval.offset + interval.block_bytes}, and "
                f"{self._parts.paths.states} does not know of blocks there"
            )

    # ---- the end

    def finish(self) -> None:
        """The new index is the bookie's on return, durably.

        StorageError, DiskFullError: the old one is. IndexDamagedError: none is open, and the next start has one.
        """
        parts, index = self._parts, self._new.index
        for _ in self._build(self._rest()):
            pass
        known = self._states()
        states = states_in(known.records)
        self._require_states(states)
        self._new.put_states(known.records.items())
        if any(map(is_segment, self._ends)):
            index.allow_segments()
        index.put_log_end(parts.writer.end)
        index.sync(known.generation)
        self._new.prove_states(states)
        self.result.entry_logs = len(self._ends)
        self.result.count_states(states)
        self._new.close()
        parts.index.exchange(partial(put_in_place, parts.disk, parts.paths))
        remove_old(parts.disk, parts.paths)

    def _require_states(self, states: dict[bytes, bytes]) -> None:
        """Every ledger with blocks has one; those deleted by now have no entries in the new index."""
        for ledger_id in self._ledgers:
            state = state_in(states, ledger_id)
            if state is None:
                raise _stays(
                    f"{self._parts.paths.states} does not know ledger {ledger_id}, which has entries"
                )
            if state.deleted:
                self._new.index.remove_entries(ledger_id)

    def abandon(self) -> None:
        """Remove what has not become the index, after whatever call failed. DiskFailedError.

        If the exchange was cut off there is no `index`, and the next start needs the new one.
        """
        self._new.close()
        disk, paths = self._parts.disk, self._parts.paths
        if disk.exists(paths.index) and disk.exists(paths.new_index):
            disk.remove_tree(paths.new_index)


def _size(part: LogPart) -> int:
    """0 if it goes on to the end of its file: nothing is added to that."""
    return 0 if part.end is None else part.end - part.start


class Rebuilder:
    """Rebuilds run one after the other, and none during a compaction."""

    def __init__(
        self,
        parts: Parts,
        jobs: StorageJobs,
        pace: Pace,
        lock: asyncio.Lock,
        keep_files: Callable[[bool], None],
    ) -> None:
        """`lock` is held while files may move; after `keep_files(True)` none with blocks is removed."""
        self._parts = parts
        self._jobs = jobs
        self._pace = pace
        self._lock = lock
        self._keep_files = keep_files

    async def rebuild(self) -> Rebuilt:
        """After a checkpoint of this process.

        Raises:
            StorageError: the old index stays: a file or the states are damaged, or the new index did not prove right.
            DiskFullError: the old index stays.
            LogStoreError: any other error of a write, which ends the storage.
        """
        async with self._lock:
            self._keep_files(True)
            try:
                return await self._rebuild()
            finally:
                self._keep_files(False)

    async def _rebuild(self) -> Rebuilt:
        rebuild = await self._jobs.run(partial(Rebuild, self._parts))
        try:
            while (done_bytes := await self._jobs.run(rebuild.step)) is not None:
                await self._pace.after(done_bytes)
            await self._jobs.run(rebuild.finish)
        finally:
            self._jobs.submit(rebuild.abandon)
        logger.info(
            "the index was rebuilt while the bookie served: %d entries of %d ledgers in %d files",
            rebuild.result.entries,
            rebuild.result.ledgers,
            rebuild.result.entry_logs,
        )
        return rebuild.result


def _stays(reason: str) -> StorageError:
    return StorageError(
        f"the index stays as it is: {reason}; with the bookie stopped, `bookie rebuild-index` makes one without that, "
        "and the bookie starts in limbo"
    )
