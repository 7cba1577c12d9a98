"""One checkpoint: from the write cache and the changed states to entry log, index and log mark.

Invariant, in this order: blocks into the entry log, its sync; intervals and states into the index, its sync; the same
states into the state log, its sync; the log mark replaced durably; old journal files removed. A crash between any two
steps leaves the journal able to redo all of it, and doing it again changes nothing. Runs in the storage worker.

Pitfall: docs/pitfalls.md#name-or-mark-not-durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from bookie_server.disk.disk import Disk
from bookie_server.disk.reserve import Reserve
from bookie_server.errors import DiskFullError, TooManyFilesError
from bookie_server.journal.files import remove_before
from bookie_server.journal.log_mark import LogMark, encode_log_mark
from bookie_server.storage.entry_logs.entry_log import EntryLogWriter
from bookie_server.storage.entry_logs.format import encode_block
from bookie_server.storage.index import Index, Interval, interval_of
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.storage.stored_entry import StoredEntry
from bookie_server.storage.write_cache import Run, WriteCache

_WRITE_BYTES = 4 * 1024 * 1024
"""Written and synced at a time: the journal's syncs on the same disk wait for no more than this."""


_Placed = dict[int, list[tuple[Sequence[int], Interval]]]
"""By ledger: the ids of each block, and where it is."""


@dataclass(frozen=True, slots=True)
class CheckpointJob:
    """What one checkpoint has to store. It does not change any more, so it can be repeated."""

    cache: WriteCache
    states: Sequence[tuple[bytes, bytes]]
    deleted: Sequence[int]
    mark: LogMark
    """Every record before it is in `cache`, `states`, `deleted` or in an earlier checkpoint."""


class Checkpointer:
    def __init__(
        self,
        disk: Disk,
        paths: StoragePaths,
        writer: EntryLogWriter,
        index: Index,
        state_log: StateLog,
        reserve: Reserve,
        block_bytes_max: int,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._writer = writer
        self._index = index
        self._state_log = state_log
        self._reserve = reserve
        self._block_bytes_max = block_bytes_max
        self._generation = index.generation()
        self._placed: tuple[CheckpointJob, _Placed] | None = None
        """A job that is not done, and where its blocks are already."""

    def run(self, job: CheckpointJob) -> None:
        """Execute the job. DiskFullError: not done, no block that the index may name was changed; may be repeated."""
        self._with_reserve(partial(self._store, job))
        mark = replace(job.mark, generation=self._generation)
        end = self._writer.end if self._writer.end.log_id else None
        try:
            self._with_reserve(partial(self._state_log.store, self._generation, job.states, end))
            self._with_reserve(partial(self._disk.replace_file, self._paths.mark, encode_log_mark(mark)))
        except DiskFullError:
            return  # the old mark is as safe, restart only has more to replay; the next checkpoint sets it
        remove_before(self._disk, self._paths.journal, mark)

    def end_limbo(self) -> None:
        """Durably forget that part of the journal was lost. DiskFullError: not done; may be repeated."""
        self._with_reserve(self._unmark_limbo)
        self._with_reserve(self._state_log.write_anew)

    def _with_reserve(self, work: Callable[[], None]) -> None:
        """Twice if need be: what had stopped the index may be over, in an earlier try too, and it is open again."""
        try:
            work()
        except DiskFullError as full:
            if not isinstance(full, TooManyFilesError) and self._reserve.release():
                self._index.reopen()
            work()

    def _store(self, job: CheckpointJob) -> None:
        """Invariant: blocks that the index may name are never written over. If it was full, it may have kept some of
        their intervals, and a replay would rely on these; so when the job is repeated, its blocks stay where they are.
        """
        try:
            self._index_entries(self._placed_entries(job))
            self._index.put_states(job.states)
            for ledger_id in job.deleted:
                self._index.remove_entries(ledger_id)
            self._index.sync(self._generation + 1)
        except DiskFullError:
            self._index.reopen()
            raise
        self._placed = None
        self._generation += 1

    def _unmark_limbo(self) -> None:
        try:
            self._index.set_limbo(None)
            self._index.sync(self._generation)
        except DiskFullError:
            self._index.reopen()
            raise

    # ---- entry log

    def _placed_entries(self, job: CheckpointJob) -> _Placed:
        """Where the job's entries are in the entry log, durably; written now if they are not there yet."""
        if self._placed is None or self._placed[0] is not job:
            start = self._writer.end
            try:
                self._placed = job, self._write_entries(job.cache)
            except DiskFullError:
                self._writer.back_to(start)
                raise
        return self._placed[1]

    def _write_entries(self, cache: WriteCache) -> _Placed:
        """Append every ledger's entries, sorted; where they are now. Durable on return."""
        placed: _Placed = {}
        if not cache.ledgers:
            return placed
        end = self._writer.begin()
        offset, gathered = end.offset, 0
        parts: list[bytes] = []
        for ledger_id in sorted(cache.ledgers):
            mine = placed[ledger_id] = []
            for ids, entries in _in_blocks(cache.ledgers[ledger_id].runs, self._block_bytes_max):
                head, body = encode_block(end.log_id, offset, ledger_id, ids, entries)
                size = len(head) + len(body)
                mine.append((ids, interval_of(ids, end.log_id, offset, size)))
                parts += (head, body)
                offset += size
                gathered += size
                if gathered >= _WRITE_BYTES:
                    self._append(parts)
                    parts, gathered = [], 0
        self._append(parts)
        return placed

    def _append(self, parts: Sequence[bytes]) -> None:
        if parts:
            self._writer.append(parts)
            self._writer.sync()

    # ---- index

    def _index_entries(self, placed: _Placed) -> None:
        if not placed:
            return
        self._index.put_log_end(self._writer.end)
        for ledger_id, blocks in placed.items():
            self._index.add_blocks(ledger_id, blocks)


def _in_blocks(runs: Sequence[Run], bytes_max: int) -> Iterator[tuple[list[int], list[StoredEntry]]]:
    """Cut ascending runs into blocks of at most `bytes_max` bytes, but of at least one entry."""
    ids: list[int] = []
    entries: list[StoredEntry] = []
    room = bytes_max
    for run_ids, run_entries in runs:
        ends = list(accumulate(map(len, run_entries)))
        start = before = 0
        while start < len(ends):
            stop = bisect_right(ends, before + room)
            if stop <= start:  # the next entry does not fit any more; after a large one not even nothing fits
                if ids:
                    yield ids, entries
                    ids, entries, room = [], [], bytes_max
                    continue
                stop = start + 1
            ids += run_ids[start:stop]
            entries += run_entries[start:stop]
            room -= ends[stop - 1] - before
            start, before = stop, ends[stop - 1]
    if ids:
        yield ids, entries
