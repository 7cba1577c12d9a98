"""Reads of entries that are no longer in the write cache: block cache, then index, then entry log.

Invariant: an empty answer is proof of absence and needs a healthy index lookup; whatever goes wrong on the way is
a StorageError. Reads of one ledger share a worker, so that several reads of one block cost one disk read.

Pitfall: docs/pitfalls.md#damage-answered-as-absence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from bookie_server.disk.disk import Disk, DiskWorker
from bookie_server.errors import BlockDamagedError, StorageClosedError, StorageError
from bookie_server.storage.block_cache import BlockCache
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Index, Interval
from bookie_server.storage.ranges import Range, dense_ranges
from bookie_server.storage.storage_paths import StoragePaths
from ledger.buggify import buggify
from ledger.errors import LogStoreError

T = TypeVar("T")

_RECENT_BLOCKS = 32
_READ_POSITIONS_MAX = 4096
_GAP_BYTES_MAX = 64 * 1024
"""Between two blocks of one read: to read over it costs less than to read twice."""


class _Lane:
    """One reading worker with its open files and the blocks it read last."""

    def __init__(self, worker: DiskWorker, index: Index, logs: EntryLogReader) -> None:
        self.worker = worker
        self.logs = logs
        self._index = index
        self._recent: OrderedDict[tuple[int, int], Block] = OrderedDict()

    def load(self, ledger_id: int, entry_id: int, ahead_bytes: int) -> list[Block]:
        """The block that covers the entry and those that follow it on disk; none if it is absent."""
        return self._despite_moves(partial(self._load, ledger_id, entry_id, ahead_bytes))

    def _despite_moves(self, read: Callable[[], list[T]]) -> list[T]:
        """What `read` finds; again if it failed and a compaction may have moved what it reads and removed the file.

        A file is removed only after the index has named the new place of all that was in it.
        """
        while True:
            moves = self._index.moves
            try:
                return read()
            except StorageError:
                if self._index.moves == moves:
                    raise

    def _load(self, ledger_id: int, entry_id: int, ahead_bytes: int) -> list[Block]:
        found = self._index.find(ledger_id, entry_id)
        if found is None:
            return []
        intervals = self._with_ahead(ledger_id, found, ahead_bytes)
        recent = self._recent_of(intervals)
        if not recent:
            return self._read(ledger_id, intervals)
        _check_dense(recent[0], found, entry_id)
        return recent

    def _recent_of(self, intervals: list[Interval]) -> list[Block]:
        """Of the first one, and of those after it as long as none is missing."""
        found: list[Block] = []
        for interval in intervals:
            block = self._recent.get((interval.log_id, interval.offset))
            if block is None:
                break
            found.append(block)
        return found

    def _with_ahead(self, ledger_id: int, first: Interval, ahead_bytes: int) -> list[Interval]:
        chosen, end = [first], first.offset + first.block_bytes
        if ahead_bytes <= first.block_bytes:
            return chosen
        for following in self._index.intervals(ledger_id, first.last + 1):
            gap = following.offset - end  # of other ledgers, in a journal file
            room = first.offset + ahead_bytes - following.offset
            if (
                following.log_id != first.log_id
                or not 0 <= gap <= _GAP_BYTES_MAX
                or following.block_bytes > room
            ):
                break
            chosen.append(following)
            end = following.offset + following.block_bytes
        return chosen

    def _read(self, ledger_id: int, intervals: list[Interval]) -> list[Block]:
        try:
            blocks = self.logs.read(ledger_id, intervals)
        except StorageError:
            if len(intervals) == 1:
                raise
            blocks = self.logs.read(ledger_id, intervals[:1])  # damage further on is not this read's matter
        for interval, block in zip(intervals, blocks, strict=False):
            _check_dense(block, interval, interval.first)
            self._recent[interval.log_id, interval.offset] = block
        while len(self._recent) > _RECENT_BLOCKS:
            self._recent.popitem(last=False)
        return blocks

    def ranges(self, ledger_id: int) -> list[Range]:
        """Ranges of the ledger's entries in entry logs.

        A compaction that brings intervals together while they are listed hides some of them. No later one concerns the
        same intervals before its files are written, so what two lists in a row agree on is complete.
        """
        moves, read = self._index.moves, partial(self._ranges, ledger_id)
        found = self._despite_moves(read)
        if self._index.moves != moves or moves % 2:
            while (again := self._despite_moves(read)) != found:
                found = again
        return found

    def _ranges(self, ledger_id: int) -> list[Range]:
        found: list[Range] = []
        for interval in self._index.intervals(ledger_id):
            if interval.dense:
                found.append((interval.first, interval.last))
                continue
            ids = self.logs.read(ledger_id, [interval])[0].ids
            found += dense_ranges([e for e in ids if interval.first <= e <= interval.last])
        return found

    def forget_logs(self, log_ids: list[int]) -> None:
        for log_id in log_ids:
            self.logs.forget(log_id)

    def forget_all(self) -> None:
        """Blocks, and files: one that was removed can be read for as long as it is open."""
        self._recent.clear()
        self.logs.close()

    def close(self) -> None:
        self.logs.close()


def _check_dense(block: Block, interval: Interval, entry_id: int) -> None:
    if interval.dense and block.entry(entry_id) is None:
        raise BlockDamagedError(
            f"index and entry log {interval.log_id} disagree about entry {entry_id} of ledger {block.ledger_id} at "
            f"offset {interval.offset}: read it from another bookie",
            ledger_id=block.ledger_id,
            entry_id=entry_id,
        )


class EntryReader:
    def __init__(self, disk: Disk, index: Index, paths: StoragePaths, config: StorageConfig) -> None:
        self._ahead_bytes = config.read_ahead_bytes
        self._cache = BlockCache(config.read_cache_bytes_max)
        self._lanes = [
            _Lane(disk.worker(f"read-{number}"), index, EntryLogReader(disk, paths))
            for number in range(config.read_worker_count)
        ]
        # The loop's own lane serves the rare lookups that must not let other requests in between.
        self._own = _Lane(self._lanes[0].worker, index, EntryLogReader(disk, paths))
        self._next_expected: OrderedDict[int, int] = OrderedDict()
        self.on_breakdown: Callable[[LogStoreError], None] = lambda _: None
        """Called on the loop when a worker has met what is no error of a read, and so has ended: no later read of its
        ledgers could be answered."""

    def _on_error(self, error: LogStoreError) -> None:
        if not isinstance(error, StorageError):
            self.on_breakdown(error)

    def cached_block(self, ledger_id: int, entry_id: int) -> Block | None:
        return self._cache.block(ledger_id, entry_id)

    async def load(self, ledger_id: int, entry_id: int, *, sequential: bool = False) -> list[Block]:
        """The block whose range covers the entry, from disk, and what was read ahead of it; empty if no block does.

        All of it belongs to the caller's read: where more ledgers are read than the cache has capacity for, it has
        forgotten what is after the first block before that is asked for.

        Raises:
            StorageError: it cannot be read.
        """
        lane = self._lanes[ledger_id % len(self._lanes)]
        sequential = sequential or self._next_expected.get(ledger_id) == entry_id
        ahead_bytes = self._ahead_bytes if sequential else 0
        blocks = await lane.worker.run(lambda: lane.load(ledger_id, entry_id, ahead_bytes), self._on_error)
        self._keep(ledger_id, blocks)
        return blocks

    async def ranges(self, ledger_id: int) -> list[Range]:
        """Ranges of the ledger's entries in entry logs, ascending. StorageError."""
        lane = self._lanes[ledger_id % len(self._lanes)]
        return await lane.worker.run(lambda: lane.ranges(ledger_id), self._on_error)

    def load_in_place(self, ledger_id: int, entry_id: int) -> Block | None:
        """As `load`, on the calling thread, for lookups that must not let other requests in between."""
        try:
            blocks = self._own.load(ledger_id, entry_id, 0)
        except BlockDamagedError:  # a disk may be wrong once and right the next time
            blocks = self._own.load(ledger_id, entry_id, 0)
        self._keep(ledger_id, blocks)
        return blocks[0] if blocks else None

    def _keep(self, ledger_id: int, blocks: list[Block]) -> None:
        if not buggify("bookie.forget-block"):
            for block in blocks:
                self._cache.put(block)
        if not blocks:
            return
        self._next_expected[ledger_id] = blocks[-1].last + 1
        self._next_expected.move_to_end(ledger_id)
        if len(self._next_expected) > _READ_POSITIONS_MAX:
            self._next_expected.popitem(last=False)

    def forget_ledger(self, ledger_id: int) -> None:
        self._cache.drop(ledger_id)

    async def forget_all(self) -> None:
        """What was read before the call is not returned after it, also if its read is under way.

        Blocks were written and taken back, so what was read ahead of the index's sync is void; or files were found
        damaged, so what was read before hides it.
        """
        self._cache.clear()
        for lane in self._lanes:
            await lane.worker.run(lane.forget_all)
        self._own.forget_all()
        self._cache.clear()

    async def forget_logs(self, log_ids: list[int]) -> None:
        """Close removed logs wherever they are open."""
        self._own.forget_logs(log_ids)
        for lane in self._lanes:
            await lane.worker.run(partial(lane.forget_logs, log_ids))

    async def close(self) -> None:
        for lane in self._lanes:
            with suppress(StorageClosedError):  # one that broke down has left its files open
                await lane.worker.run(lane.close)
            await lane.worker.close()
        self._own.close()
