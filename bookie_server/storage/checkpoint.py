"""One checkpoint: from the write cache and the changed states to entry log, index and log mark.

Invariant, in this order: blocks into the entry log, its sync; intervals and states into the index, its sync; the same
states into the state log, its sync; the log mark replaced durably; old journal files removed. A crash between any two
steps leaves the journal able to redo all of it, and doing it again changes nothing. Runs in the storage worker.

Pitfall: docs/pitfalls.md#name-or-mark-not-durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.reserve import Reserve
from bookie_server.errors import DiskFullError, LedgerDirectoryFailedError, TooManyFilesError
from bookie_server.journal.block import in_blocks
from bookie_server.journal.files import file_ids, remove_before
from bookie_server.journal.log_mark import LogMark, encode_log_mark
from bookie_server.storage.entry_logs.directories import LogDirectories
from bookie_server.storage.entry_logs.entry_log import EntryLogWriter
from bookie_server.storage.entry_logs.format import encode_block
from bookie_server.storage.index import Index, interval_of, tombstones
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.scrub.block_files import BlockFile, block_files
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.storage.write_cache import PlacedBlock, WriteCache

_WRITE_BYTES = 1024 * 1024
"""Written and synced at a time. The journal's syncs on the same disk wait for no more than this: for 0.6 ms at p99,
and from 2 MiB on for 5 ms. Smaller pieces write at a lower rate."""


_Placed = dict[int, list[PlacedBlock]]
"""By ledger."""


@dataclass(frozen=True, slots=True)
class CheckpointJob:
    """What one checkpoint has to store. It can be repeated; `cache` may lose ledgers before that.

    Invariant: those are in `deleted`, and their tombstones in `states`, since the mark passes their entries.
    """

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
        directories: LogDirectories,
        index: Index,
        state_log: StateLog,
        reserve: Reserve,
        block_bytes_max: int,
        mark: LogMark,
    ) -> None:
        """`mark` is durable."""
        self._disk = disk
        self._paths = paths
        self._writer = writer
        self._directories = directories
        self._index = index
        self._state_log = state_log
        self._reserve = reserve
        self._block_bytes_max = block_bytes_max
        self._generation = index.generation()
        self._mark = mark
        self._placed: tuple[WriteCache, _Placed] | None = None
        """The cache of a job that is not done, and where its blocks are already."""

    def run_or_delete(self, job: CheckpointJob) -> None:
        """As `run`; if that meets a full disk, the job's deletions are stored, which take next to no space.

        Files in which nothing else lives may be removed then, so that the job has the space that it lacks.
        """
        try:
            self.run(job)
        except DiskFullError:
            if job.deleted:
                with suppress(DiskFullError):
                    self.with_reserve(partial(self._store_deletions, job))
            raise

    def run(self, job: CheckpointJob) -> None:
        """Execute the job. DiskFullError: not done, no block that the index may name was changed; may be repeated."""
        self._state_log.ends()  # as they are before the index names what is new: its end is known
        self.with_reserve(partial(self._store, job))
        mark = replace(job.mark, generation=self._generation)
        ends = _segment_ends(job.cache.placed)
        if self._writer.end.log_id:
            ends[self._writer.end.log_id] = self._writer.end.offset
        try:
            self.with_reserve(partial(self._state_log.store, self._generation, job.states, ends))
            self.with_reserve(partial(self._disk.replace_file, self._paths.mark, encode_log_mark(mark)))
        except DiskFullError:
            return  # the old mark is as safe, restart only has more to replay; the next checkpoint sets it
        self._mark = mark
        remove_before(self._disk, self._paths.journal, mark, self._is_needed)

    def _is_needed(self, file_id: int) -> bool:
        """Whether the index ever pointed into the journal file: then it is left to garbage collection."""
        return self._state_log.knows(segment_id(file_id))

    @property
    def has_placed(self) -> bool:
        """Whether blocks at the end of the current entry log wait for the index, held up by a full disk."""
        return self._placed is not None

    @property
    def generation(self) -> int:
        """Of the last checkpoint that the index has stored."""
        return self._generation

    @property
    def mark(self) -> LogMark:
        """Where a start would begin to replay."""
        return self._mark

    def block_files(self) -> list[BlockFile]:
        """What the index must lead to. DiskFailedError."""
        return block_files(self._state_log.ends(), self._mark)

    def segments_before_mark(self) -> list[int]:
        """Journal files before the durable mark, by their numbers in the index."""
        files = file_ids(self._disk, self._paths.journal)
        return [segment_id(each) for each in files if each < self._mark.file_id]

    def end_limbo(self) -> None:
        """Durably forget that part of the journal was lost. DiskFullError: not done; may be repeated."""
        self.with_reserve(self._unmark_limbo)
        self.with_reserve(self._state_log.write_anew)

    def with_reserve(self, work: Callable[[], None]) -> None:
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
            self._index_entries(self._placed_entries(job), job.cache.placed)
            self._index.put_states(job.states)
            for ledger_id in job.deleted:
                self._index.remove_entries(ledger_id)
            self._index.sync(self._generation + 1)
        except DiskFullError:
            self._index.reopen()
            raise
        self._placed = None
        self._generation += 1

    def _store_deletions(self, job: CheckpointJob) -> None:
        """Of the generation that is stored: a start replays all records of the job, those of the deletions too."""
        deleted = tombstones(job.states)
        try:
            self._index.put_states(deleted)
            for ledger_id in job.deleted:
                self._index.remove_entries(ledger_id)
            self._index.sync(self._generation)
        except DiskFullError:
            self._index.reopen()
            raise
        self._state_log.store(self._generation, deleted, {})

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
        if self._placed is None or self._placed[0] is not job.cache:
            self._placed = job.cache, self._write_where_possible(job.cache)
        return self._placed[1]

    def _write_where_possible(self, cache: WriteCache) -> _Placed:
        """As `_write_entries`; what a ledger directory cannot take goes into another one, from its beginning."""
        full: set[Path] = set()
        while True:
            start = self._writer.end
            try:
                return self._write_entries(cache, full)
            except DiskFullError as error:
                full.add(self._writer.back_to(start))
                if isinstance(error, TooManyFilesError) or not self._directories.has_other_than(full):
                    raise
            except LedgerDirectoryFailedError:
                self._writer.leave_failed(start)

    def _write_entries(self, cache: WriteCache, full: Collection[Path]) -> _Placed:
        """Append every ledger's entries that are in no journal file for good, sorted; where they are now. Durable on
        return.

        Invariant: all go into one entry log, however large it gets. It is the current one while a full disk keeps the
        index from naming them; garbage collection takes a log before the current one for dead if no index names it.
        """
        placed: _Placed = {}
        unplaced = {each: runs for each in sorted(cache.ledgers) if (runs := cache.unplaced(each))}
        if not unplaced:
            return placed
        end = self._writer.begin(full)
        offset, gathered = end.offset, 0
        parts: list[bytes] = []
        for ledger_id, runs in unplaced.items():
            mine = placed[ledger_id] = []
            for ids, entries in in_blocks(runs, self._block_bytes_max):
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

    def _index_entries(self, *all_placed: _Placed) -> None:
        if not any(all_placed):
            return
        self._index.put_log_end(self._writer.end)
        for placed in all_placed:
            for ledger_id, blocks in placed.items():
                # Together what is in one file; a ledger's blocks are in the order of their ids, and of files.
                for _log_id, together in groupby(blocks, lambda block: block[1].log_id):
                    self._index.add_blocks(ledger_id, list(together))


def _segment_ends(placed: _Placed) -> dict[int, int]:
    """By journal file: where the last of these blocks ends."""
    ends: dict[int, int] = {}
    for blocks in placed.values():
        for _, interval in blocks:
            end = interval.offset + interval.block_bytes
            ends[interval.log_id] = max(end, ends.get(interval.log_id, 0))
    return ends
