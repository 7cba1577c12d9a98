"""The storage of one bookie: journal, write cache, entry logs and index behind one interface.

Invariant: synchronous methods run on the event loop, so the changes and reads of a ledger have one serial order; file
I/O runs in the disk's workers. `None` and -1 mean *proved absent*; any doubt is a StorageError.
Two rare lookups read the disk on the event loop, because no other request may run in between: the state of a ledger
that is not in memory, and the stored copy of an entry that is added again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import lt
from pathlib import Path
from struct import Struct
from typing import TypeAlias, TypeVar

from bookie_server.disk.disk import Disk, DiskWorker
from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.disk.durable import until_durable
from bookie_server.errors import (
    BlockDamagedError,
    DiskFullError,
    LimboError,
    StorageClosedError,
)
from bookie_server.journal.files import Place
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import RecordType, explicit_lac_body, key_body, ledger_body
from bookie_server.journal.writer import Journal, LedgerRun
from bookie_server.storage.background.jobs import StorageJobs
from bookie_server.storage.background.last_look import LastLook
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.compaction.compactor import Compacted, Compactor
from bookie_server.storage.compaction.space import FileSpace
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_reader import EntryReader
from bookie_server.storage.index import interval_of
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.maintenance import Callbacks, StorageMaintenance
from bookie_server.storage.reads import StorageReads
from bookie_server.storage.rebuild.new_index import Rebuilt
from bookie_server.storage.rebuild.running import Rebuilder
from bookie_server.storage.repeated_adds import compare_run, report_conflicts
from bookie_server.storage.scrub.block_files import BlockFile
from bookie_server.storage.scrub.file_walk import FileWalk, UnindexedBlock
from bookie_server.storage.scrub.walk import BlockWalk
from bookie_server.storage.segments.places import is_segment, segment_id
from bookie_server.storage.start.journal_recovery import keep_explicit_lac
from bookie_server.storage.start.opening import Parts, open_parts
from bookie_server.storage.stored_entry import EntryRun, StoredEntry
from bookie_server.storage.write_cache import WriteCache
from ledger.environment import Environment
from ledger.errors import LogStoreError

OnDurable = Callable[[Exception | None], None]
"""Called exactly once, on the event loop, after the call that took it has returned. None: it is durable."""

Run = TypeVar("Run", bound=EntryRun)
OnAddsDurable: TypeAlias = Callable[[Sequence[tuple[StoredLedger, Run]], Exception | None], None]
"""As OnDurable, for some of the adds that were given together."""

_LAC = Struct(">q")
_LAC_OFFSET = 16
"""Of an entry: after ledger id and entry id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCounts:
    """What a storage holds in memory now, and what it has done since it was opened."""

    journal_queued_bytes: int
    journal_appended_bytes: int
    journal_groups: int
    """Group commits, each one sync."""
    cached_bytes: int
    """Accepted and not yet in an entry log, with their overhead in memory."""
    entries_added: int
    """Accepted ones; a repeated add does not count."""
    checkpoints: int
    entry_logs: int | None
    """Entry logs with blocks; None until the first checkpoint."""
    journal_files: int | None
    """The same for journal files with entries that are written once."""
    ledgers_deleted: int
    files_removed: int
    """Entry logs and journal files, by garbage collection and compaction."""
    compactions: int
    """Runs, each of which copies what lives in some files."""
    compacted_bytes: int
    """Bytes that they have copied."""


class LedgerStorage(StorageReads):
    """All ledgers of one bookie."""

    def __init__(self, config: StorageConfig, parts: Parts, disk: Disk, storage_worker: DiskWorker) -> None:
        """Not for callers: see `open`."""
        self._config = config
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._storage_worker = storage_worker
        self._journal_worker = disk.worker("journal")
        reader = EntryReader(disk, parts.index, parts.paths, config)
        reader.on_breakdown = self._fail
        super().__init__(parts.states, parts.caches, reader)
        self._keyless: set[int] = set()
        self._entries_added = self._ledgers_deleted = 0
        self._closed = False
        self._room_waiters: list[asyncio.Future[None]] = []
        self.failed: Exception | None = None
        """The first journal or storage error. From then on changes are answered with it, until restart."""
        self.on_failure: Callable[[Exception], None] = _ignore
        """Called once, on the loop, when `failed` is set. The server stops with its message."""
        self.on_writable_change: Callable[[bool], None] = _ignore
        """Called on the loop when `writable` changes (disk above or below its limit)."""
        self.on_directory_failure: Callable[[], None] = _ignore
        """Called on the loop when one of several ledger directories has failed, and the storage goes on."""
        self._journal = Journal(parts.files, self._journal_worker, self._fail, self._on_group)
        callbacks = Callbacks(
            fail=self._fail,
            wake=self._wake,
            writable_changed=self._announce,
            directory_failed=lambda: self.on_directory_failure(),
        )
        jobs = StorageJobs(storage_worker, failure=self._ended, fail=self._fail)
        pace = Pace(config.compaction_bytes_per_s, lambda: self._journal.queued_bytes > 0)
        self._upkeep = StorageMaintenance(
            config,
            parts,
            self._journal,
            storage_worker,
            self._reader,
            callbacks,
            LastLook(parts, jobs, pace, self.restore_blocks),
        )
        files_move = asyncio.Lock()
        self._compactor = Compactor(
            config, parts, jobs, pace, files_move, self.remove_dead_logs, lambda: self._upkeep.logs_removed
        )
        self._rebuilder = Rebuilder(parts, jobs, pace, files_move, self._upkeep.keep_files)

    @classmethod
    async def open(cls, config: StorageConfig, disk: Disk, environment: Environment) -> LedgerStorage:
        """Open what `make_first_files` has made, replay the journal's tail, start the workers.

        On return every fence, entry and deletion that was acknowledged is there.

        Raises:
            JournalDamagedError, IndexDamagedError: acknowledged data may be missing (docs/operations.md).
            JournalVersionError, IndexVersionError: a newer version wrote the files.
            DiskFullError, DiskFailedError: a disk has no space, or fails.
        """
        worker = disk.worker("storage")
        opened: list[Parts] = []
        try:
            await worker.run(lambda: opened.append(open_parts(config, disk, environment)))
        except LogStoreError:
            await worker.close()
            raise
        except BaseException:
            # A job goes on when its caller is cancelled, who releases the locks of the directories next.
            await asyncio.shield(_close_opened(worker, opened))
            raise
        (parts,) = opened
        storage = cls(config, parts, disk, worker)
        try:
            await storage._upkeep.start()
        except BaseException:
            storage._closed = True
            await asyncio.shield(storage._stop())
            raise
        return storage

    @property
    def writable(self) -> bool:
        """False: refuse normal adds. Fences, reads and recovery adds work while the reserve lasts."""
        return self._upkeep.writable

    # ---- ledgers

    def ledger(self, ledger_id: int) -> StoredLedger | None:
        """The ledger's state, also of a deleted ledger. None: no request ever named the ledger here.

        Raises:
            StorageError: the index cannot be read.
            LimboError: the storage is in limbo and does not know the ledger.
        """
        state = self._states.get(ledger_id)
        if state is None and self.limbo:
            raise LimboError(
                f"ledger {ledger_id} is unknown, but part of the journal was lost: ask another bookie",
                ledger_id=ledger_id,
            )
        return state

    def ledger_in_memory(self, ledger_id: int) -> StoredLedger | None:
        """As `ledger`, without reading the disk; None proves nothing. For checkers, which must not change the state."""
        return self._states.in_memory(ledger_id)

    def create_ledger(self, ledger_id: int, master_key: bytes) -> StoredLedger:
        """Create a ledger that `ledger` does not know. Its key is durable before any add or fence of it."""
        state = self._states.create(ledger_id, bytes(master_key))
        self._journal_key(state)
        return state

    def _journal_key(self, state: StoredLedger) -> None:
        def on_durable(error: Exception | None) -> None:
            if error is not None:  # the disk was full; the next change of the ledger tries again
                self._keyless.add(state.ledger_id)

        self._keyless.discard(state.ledger_id)
        self._journal.append(RecordType.LEDGER_KEY, key_body(state.ledger_id, state.master_key), on_durable)

    def ledger_ids(self) -> Iterable[int]:
        """Ascending ids of the ledgers that are not deleted. Scans all states on the event loop.

        Raises:
            StorageError: the index cannot be read.
        """
        return self._states.ledger_ids()

    def newest_ledger(self, limit: int) -> int | None:
        """The highest id, up to `limit`, of a ledger that is or was here, deleted or not.

        Raises:
            StorageError: the index cannot be read.
        """
        return self._states.newest(limit)

    async def list_ledgers(self) -> list[int]:
        """As `ledger_ids`, with a scan in a worker."""
        return await self._states.list_ledgers(self._storage_worker)

    # ---- changes

    def add(self, adds: Sequence[tuple[StoredLedger, Run]], on_durable: OnAddsDurable[Run]) -> None:
        """Add runs of entries, each of one ledger and in the order received. On return reads see them.

        Each entry is as stored: ledger id, entry id, LAC, length, digest, payload; at least the first three, 24 bytes.
        Views are kept without copying. The caller has checked ids, key, fence and `deleted`.

        `on_durable` is called once for each part of `adds` that has one outcome: None if all of it is durable, or
        EntryConflictError (of one run, whose other entries are durable), DiskFullError, DiskFailedError or
        StorageError. A repeated entry with the same payload succeeds (docs/bookkeeper.md#repeated-adds); one whose
        stored copy is damaged is stored again.
        """
        if not adds or self._refused(partial(on_durable, adds)):
            return
        shortage = self._upkeep.overflow
        if shortage is not None:
            self._loop.call_soon(on_durable, adds, shortage.copy())
            return
        keyless, put = self._keyless, self._caches.active.put
        once_bytes_min = self._config.single_write_bytes_min
        accepted: list[tuple[StoredLedger, Run]] = []
        late: list[tuple[StoredLedger, Run]] = []
        all_lengths: list[int] = []
        all_entries: list[StoredEntry] = []
        for each in adds:
            state, run = each
            if keyless and state.ledger_id in keyless:
                self._journal_key(state)
            ids, entries = run.ids, run.entries
            if ids[0] <= state.last_entry or (len(ids) > 1 and not all(map(lt, ids, ids[1:]))):
                late.append(each)
                continue
            lengths = list(map(len, entries))
            if once_bytes_min and sum(lengths) >= once_bytes_min:
                self._add_once(state, run, sum(lengths), partial(on_durable, (each,)))
                continue
            self._advance(state, ids[-1], entries[-1])
            put(state.ledger_id, ids, entries, sum(lengths))
            accepted.append(each)
            if len(adds) == 1:
                all_lengths, all_entries = lengths, entries
            else:
                all_lengths += lengths
                all_entries += entries
        if accepted:
            # One item with its own callback: a barrier after it would prove nothing if the item met a full disk.
            self._journal.append_adds(all_lengths, all_entries, partial(on_durable, accepted))
            self._entries_added += len(all_entries)
        for state, run in late:
            self._add_late(state, run, partial(on_durable, ((state, run),)))
        self._flush_if_due()

    def _add_once(self, state: StoredLedger, run: EntryRun, size: int, on_durable: OnDurable) -> None:
        """Entries that stay in the journal: the checkpoint of this half of the cache learns where they are."""
        self._advance(state, run.ids[-1], run.entries[-1])
        self._caches.active.put(state.ledger_id, run.ids, run.entries, size)
        self._entries_added += len(run.ids)
        self._journal.append_blocks(
            LedgerRun(state.ledger_id, run.ids, run.entries),
            size,
            block_bytes_max=self._config.block_bytes_max,
            on_placed=partial(_place, self._caches.active),
            on_durable=on_durable,
        )

    def _flush_if_due(self) -> None:
        if self._upkeep.is_due:
            self._upkeep.flush()

    def _advance(self, state: StoredLedger, last: int, last_entry: StoredEntry) -> None:
        # A writer's LAC never falls, so the last entry of a run carries the highest.
        (lac,) = _LAC.unpack_from(last_entry, _LAC_OFFSET)
        if lac > state.lac:
            state.lac = lac
        if last > state.last_entry:
            state.last_entry = last
        self._states.changed(state)

    def _add_late(self, state: StoredLedger, run: EntryRun, on_durable: OnDurable) -> None:
        """Entries that may be here already, or that fill gaps."""
        try:
            new = compare_run(run, partial(self._stored, state))
        except LogStoreError as error:
            self._loop.call_soon(on_durable, error)
            return
        if new.conflicts:
            on_durable = report_conflicts(state.ledger_id, new.conflicts, on_durable)
        if not new.ids and not new.repeated:
            self._loop.call_soon(on_durable, None)
            return
        # What is here is journaled once more if the first time may have met a full disk.
        again = [] if self._barrier_suffices else new.repeated
        if not new.ids and not again:
            self._journal.barrier(on_durable)
            return
        if new.ids:
            self._advance(state, new.ids[-1], new.entries[-1])
            self._caches.active.put(state.ledger_id, new.ids, new.entries, sum(map(len, new.entries)))
            self._entries_added += len(new.ids)
        entries = new.entries + again
        self._journal.append_adds(list(map(len, entries)), entries, on_durable)

    @property
    def _barrier_suffices(self) -> bool:
        """Whether every stored entry is durable once the journal has written what it was given before.

        Invariant: an entry that is stored is in the journal, or in an index that is synced. The exception is one that
        the journal refused on a full disk, in this process, or before it in one that was killed in a checkpoint.
        Recoveries that are tried again repeat their adds: a bookie that wrote each of them again would be too slow
        for the next try, too.
        """
        return self._upkeep.has_checkpointed and not self._journal.has_refused

    def _stored(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        """The entry that is stored; None if there is none, or none that can be read: the new one takes its place."""
        if entry_id > state.last_entry:
            return None
        entry = self.read_cached(state, entry_id)
        if entry is None:
            try:
                block = self._reader.load_in_place(state.ledger_id, entry_id)
            except BlockDamagedError:
                return None
            entry = None if block is None else block.entry(entry_id)
        return entry

    def fence(self, state: StoredLedger, on_durable: OnDurable) -> None:
        """Fence the ledger: `state.fenced` is set on return.

        When `on_durable` is called with None, the fence and all adds accepted before it are durable
        (docs/bookkeeper.md#fencing).
        """
        if self._refused(on_durable):
            return
        if state.ledger_id in self._keyless:
            self._journal_key(state)
        if state.fence_durable:
            self._journal.barrier(on_durable)
            return

        def on_fence_durable(error: Exception | None) -> None:
            state.fence_durable = state.fence_durable or error is None
            on_durable(error)

        state.fenced = True
        self._states.changed(state)
        self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), on_fence_durable)
        self._flush_if_due()

    def restore_ledger(
        self, ledger_id: int, master_key: bytes, *, ended: bool, on_durable: OnDurable
    ) -> None:
        """Give a ledger back what metadata knows of it: its key, and its fence if it has `ended`.

        One that has ended is fenced although it is unknown here, since a normal add would create it. One that is
        unknown and still written to stays unknown. When `on_durable` is called with None, all of it is durable.
        """
        state = self._states.get(ledger_id)
        if state is None and ended:
            state = self._states.create(ledger_id, b"")
        if state is None or state.deleted:
            self._loop.call_soon(on_durable, None)
            return
        if master_key and not state.master_key:
            state.master_key = master_key
            self._states.changed(state)
            self._journal_key(state)
        if ended:
            self.fence(state, on_durable)
        else:
            self.force(on_durable)

    def set_explicit_lacs(
        self, packets: Sequence[tuple[StoredLedger, bytes, int]], on_durable: OnDurable
    ) -> None:
        """Keep each packet if its LAC, the number with it, is the ledger's highest so far.

        When `on_durable` is called with None, these LACs or higher ones are durable (docs/bookkeeper.md#explicit-lac).
        """
        if not packets or self._refused(on_durable):
            return
        bodies: list[bytes] = []
        for state, packet, lac in packets:
            if state.ledger_id in self._keyless:
                self._journal_key(state)
            if keep_explicit_lac(state, lac, packet):
                self._states.changed(state)
            if state.explicit_lac is not None:  # None: below -1, less than "nothing is confirmed"
                # A higher one is journaled once more: the first time may have met a full disk.
                bodies.append(
                    explicit_lac_body(state.ledger_id, state.explicit_lac_value, state.explicit_lac)
                )
        self._journal.append_all(RecordType.EXPLICIT_LAC, bodies, on_durable)
        self._flush_if_due()

    def force(self, on_durable: OnDurable) -> None:
        """When `on_durable` is called with None, everything accepted before this call is durable."""
        if not self._refused(on_durable):
            self._journal.barrier(on_durable)

    def delete_ledger(self, ledger_id: int, on_durable: OnDurable) -> None:
        """Delete the ledger permanently: `deleted` is set on return, and durable when `on_durable` is called with None.

        Disk space is reclaimed when no ledger in an entry log is alive (docs/bookkeeper.md#deleting-a-ledger).
        """
        state = self._states.get(ledger_id) or self._states.create(ledger_id, b"")
        if self._refused(on_durable):
            return
        self._ledgers_deleted += not state.deleted
        state.deleted, state.explicit_lac = True, None
        self._states.changed(state)
        self._parts.deleted.append(ledger_id)
        self._caches.drop(ledger_id)
        self._reader.forget_ledger(ledger_id)
        self._journal.append(RecordType.TOMBSTONE, ledger_body(ledger_id), on_durable)
        self._flush_if_due()

    def _refused(self, on_durable: OnDurable) -> bool:
        """True if the storage accepts no changes any more; `on_durable` will be called with the error."""
        error = self._ended()
        if error is not None:
            self._loop.call_soon(on_durable, error)
        return error is not None

    # ---- load

    @property
    def bytes_pending(self) -> int:
        """Bytes accepted and not yet in an entry log, with their overhead in memory."""
        return self._caches.size

    @property
    def has_room(self) -> bool:
        """False while `wait_for_room` would wait: stop reading from connections.

        While a full disk holds up the checkpoint, normal adds are refused (`writable` is false), and fences,
        reads and recovery adds must not wait for it: `add` refuses what the active half of the cache may not take.
        """
        if self._journal.occupied_bytes >= self._config.journal_queue_bytes_max:
            return False
        return not self._upkeep.is_due or self._upkeep.held_up

    async def wait_for_room(self) -> None:
        """Return when `has_room`, or when the storage fails or closes."""
        while not self.has_room and self.failed is None and not self._closed:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._room_waiters.append(waiter)
            await waiter

    def _on_group(self, full: DiskFullError | None) -> None:
        self._upkeep.on_journal_progress(full)
        self._wake()

    def _wake(self) -> None:
        if self._room_waiters and (self.has_room or self.failed is not None or self._closed):
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    @property
    def shortage(self) -> DiskFullError | None:
        """The error for lack of space or descriptors, until the operation has succeeded."""
        return self._upkeep.shortage

    def usage(self) -> list[DirectoryUsage]:
        """Size and free space of each directory, in bytes, as measured last, first the journal's; does not block."""
        return self._upkeep.usages

    def ledger_usage(self) -> list[DirectoryUsage]:
        """As `usage`, of the ledger directories that have not failed."""
        return self._upkeep.usages[1:]

    @property
    def failed_directories(self) -> Mapping[Path, Exception]:
        """Ledger directories that this process writes to no more, each with its error."""
        return self._parts.directories.failed

    def counts(self) -> StorageCounts:
        """Does not block."""
        logs = self._parts.state_log.known_logs()
        segments = None if logs is None else sum(map(is_segment, logs))
        return StorageCounts(
            journal_queued_bytes=self._journal.queued_bytes,
            journal_appended_bytes=self._journal.appended_bytes,
            journal_groups=self._journal.groups,
            cached_bytes=self.bytes_pending,
            entries_added=self._entries_added,
            checkpoints=self._upkeep.checkpoints,
            entry_logs=None if logs is None or segments is None else len(logs) - segments,
            journal_files=segments,
            ledgers_deleted=self._ledgers_deleted,
            files_removed=self._upkeep.logs_removed,
            compactions=self._compactor.runs,
            compacted_bytes=self._compactor.copied_bytes,
        )

    # ---- scrubbing

    @property
    def journaled(self) -> LogMark:
        """The end of what is durable in the journal: it moves while changes arrive."""
        return self._journal.durable

    def block_walk(self) -> BlockWalk:
        """To check what is stored, in a worker of the caller's."""
        return BlockWalk(self._parts.disk, self._parts.index, self._parts.paths)

    def file_walk(self) -> FileWalk:
        """To find what the index has lost, in a worker of the caller's."""
        return FileWalk(self._parts.disk, self._parts.index, self._parts.paths)

    @property
    def missing_files(self) -> Sequence[Path]:
        """Files that the index led into when the storage was opened, and that were not there."""
        return self._parts.missing

    async def block_files(self) -> list[BlockFile]:
        """The files with blocks that the index must lead to now. LogStoreError: they are not known."""
        return await self._storage_worker.run(self._parts.checkpointer.block_files)

    async def restore_blocks(self, found: Sequence[UnindexedBlock]) -> list[UnindexedBlock]:
        """Let the index lead to all entries of these blocks again, durably; those blocks that had lost entries.

        Raises:
            DiskFullError: not done, and may be repeated.
            LogStoreError: any other error, which is also `failed`.
        """
        await self.checkpoint()
        return await self._upkeep.restore_blocks(found)

    async def leave_log(self, log_id: int) -> None:
        """Append nothing more to this entry log, which is damaged: its name may lead to no file any more."""
        await self._storage_worker.run(partial(self._parts.writer.leave, log_id))

    async def forget_blocks(self) -> None:
        """Read entries from the files again that were read before: blocks in memory hide damage from repair."""
        await self._reader.forget_all()

    # ---- maintenance

    async def checkpoint(self) -> None:
        """Write everything accepted so far to entry logs and index, and delete journal files no longer needed.

        Raises:
            DiskFullError: there is no space; the journal keeps the data, and a later checkpoint writes it.
            LogStoreError: any other error, which is also `failed`.
        """
        await self._checkpoint()

    async def _checkpoint(self, *, in_any_case: bool = False) -> None:
        await self._durable()
        await self._upkeep.checkpoint(in_any_case=in_any_case)
        if self.failed is not None:
            raise self.failed

    async def _durable(self) -> None:
        error = await until_durable(self.force)
        if error is not None and not isinstance(error, DiskFullError):
            raise error

    async def check_disk(self) -> None:
        """Measure the disks, restore the reserves if there is space, and set `writable`."""
        await self._upkeep.check_disk()

    async def remove_dead_logs(self) -> int:
        """Delete entry logs without a live ledger; returns how many."""
        return await self._upkeep.remove_dead_logs()

    async def compact(self, threshold: float) -> Compacted:
        """Copy what lives in files whose live part is smaller than `threshold`, and remove them.

        On return every entry is found as before. Reads, changes and checkpoints go on; it may be cancelled.

        Raises:
            StorageError: the index cannot be read.
            LogStoreError: any other error, which is also `failed`.
        """
        if not self._upkeep.has_checkpointed:
            # A power cut in a checkpoint may have left entries in the index whose ledgers are known from the journal
            # alone. Where such entries are moved to must not be in the state log without these ledgers.
            try:
                await self._checkpoint(in_any_case=True)
            except DiskFullError as full:
                return Compacted(
                    refusal=f"compaction waits for a checkpoint that a full disk holds up: {full}"
                )
        return await self._compactor.compact(threshold, nearly_full=not self.writable)

    async def rebuild_index(self) -> Rebuilt:
        """Make a new index from the files and put it in the place of the old one; what it holds.

        Reads, changes and checkpoints go on; in the meantime no file is removed. It may be cancelled.

        Raises:
            StorageError: the old index stays: a file is damaged, or the new index did not prove right.
            DiskFullError: the old index stays.
            LogStoreError: any other error, which is also `failed`.
        """
        await self._checkpoint(in_any_case=True)  # the states are in their file then
        return await self._rebuilder.rebuild()

    async def space(self) -> list[FileSpace]:
        """What is live in each entry log, and in each journal file before the log mark.

        Raises:
            StorageError: the index cannot be read.
            LogStoreError: any other error, which is also `failed`.
        """
        return await self._compactor.space()

    async def clear_limbo(self) -> None:
        """End limbo, durably.

        The caller has proved that nothing acknowledged is missing here, and made a checkpoint since the start.

        Raises:
            DiskFullError: not done, and may be repeated.
            LogStoreError: any other error, which is also `failed`.
        """
        await self._upkeep.clear_limbo()
        self._announce(self.writable)

    async def close(self) -> None:
        """Sync the journal, checkpoint, stop the workers. After a failure: only stop the workers."""
        if self._closed:
            return
        try:
            if self.failed is None:
                await self.checkpoint()
        except LogStoreError:
            pass  # the journal has everything; the next start replays it
        finally:
            self._closed = True
            self._wake()
            await self._stop()

    async def _stop(self) -> None:
        await self._upkeep.close()
        await self._reader.close()
        with suppress(StorageClosedError):  # a worker that broke down has left its files as they are
            await self._journal_worker.run(self._parts.files.close)
        await self._journal_worker.close()
        with suppress(StorageClosedError):
            await self._storage_worker.run(self._parts.close_storage)
        await self._storage_worker.close()

    def _fail(self, error: Exception) -> None:
        if self.failed is None:
            self.failed = error
            self._upkeep.give_up()
            self._wake()
            self.on_failure(error)

    def _ended(self) -> Exception | None:
        """Why nothing more may be begun, if so."""
        if self.failed is None and self._closed:
            return StorageClosedError("the storage is closed")
        return self.failed

    def _announce(self, writable: bool) -> None:
        self._wake()
        self.on_writable_change(writable)


def _place(cache: WriteCache, ledger_id: int, ids: Sequence[int], place: Place) -> None:
    cache.place(ledger_id, ids, interval_of(ids, segment_id(place.file_id), place.offset, place.size))


def _ignore(_value: object = None) -> None:
    """Until the server has set its own callback."""


async def _close_opened(worker: DiskWorker, opened: Sequence[Parts]) -> None:
    """End the worker of a start that was cancelled, and close what it has opened by then."""

    def close() -> None:
        for parts in opened:
            parts.files.close()
            parts.close_storage()

    with suppress(LogStoreError):  # nothing was written that an error could have lost
        await worker.run(close)
    await worker.close()
