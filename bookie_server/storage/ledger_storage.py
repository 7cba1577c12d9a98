"""The storage of one bookie: journal, write cache, entry logs and index behind one face.

Invariant: everything synchronous here runs on the event loop and is therefore one serial order per ledger; file
I/O runs in the disk's workers. `None` and -1 mean *proved absent*; every doubt is a StorageError.
Two rare lookups touch the disk on the loop itself, because no other request may come in between: the state
of a ledger that is not in memory, and the stored copy of an entry that is added a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import lt

from bookie_server.disk.disk import Disk, DiskWorker
from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.disk.durable import until_durable
from bookie_server.errors import (
    DiskFullError,
    LimboError,
    StorageClosedError,
    StorageError,
)
from bookie_server.journal.record import RecordType, explicit_lac_body, key_body, ledger_body
from bookie_server.journal.writer import Journal
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_reader import EntryReader
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.maintenance import Callbacks, StorageMaintenance
from bookie_server.storage.ranges import merge_ranges
from bookie_server.storage.repeated_adds import compare_run, report_conflicts
from bookie_server.storage.start.journal_recovery import keep_explicit_lac
from bookie_server.storage.start.opening import Parts, open_parts
from bookie_server.storage.stored_entry import EntryRun, StoredEntry
from ledger.environment import Environment
from ledger.errors import LogStoreError

OnDurable = Callable[[Exception | None], None]
"""Called exactly once, on the loop, never before the call that took it has returned."""

_AT_ONCE_MAX = 1024
"""Entries taken from memory in one step of a batch read; bounds what is sliced and then does not fit."""


class LedgerStorage:
    """All ledgers of one bookie."""

    def __init__(self, config: StorageConfig, parts: Parts, disk: Disk, storage_worker: DiskWorker) -> None:
        """Not for callers: see `open`."""
        self._config = config
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._states = parts.states
        self._caches = parts.caches
        self._storage_worker = storage_worker
        self._journal_worker = disk.worker("journal")
        self._reader = EntryReader(disk, parts.index, parts.paths.entry_logs, config)
        self._keyless: set[int] = set()
        self._closed = False
        self._room_waiters: list[asyncio.Future[None]] = []
        self.failed: Exception | None = None
        """The first journal or storage error. From then on changes are answered with it, until restart."""
        self.on_failure: Callable[[Exception], None] = _ignore
        """Called once, on the loop, when `failed` is set. The server stops with its message."""
        self.on_writable_change: Callable[[bool], None] = _ignore
        """Called on the loop when `writable` changes (disk above or below its limit)."""
        self._journal = Journal(parts.files, self._journal_worker, self._fail, self._on_group)
        callbacks = Callbacks(fail=self._fail, wake=self._wake, writable_changed=self._announce)
        self._upkeep = StorageMaintenance(
            config, parts, self._journal, storage_worker, self._reader, callbacks
        )

    @classmethod
    async def open(cls, config: StorageConfig, disk: Disk, environment: Environment) -> LedgerStorage:
        """Open what `make_first_files` has made, replay the journal's tail, start the workers.

        JournalDamagedError, JournalVersionError, IndexDamagedError, DiskFullError, DiskFailedError.
        """
        worker = disk.worker("storage")
        try:
            parts = await worker.run(partial(open_parts, config, disk, environment))
        except LogStoreError:
            await worker.close()
            raise
        storage = cls(config, parts, disk, worker)
        await storage._upkeep.start()
        return storage

    @property
    def writable(self) -> bool:
        """False: refuse normal adds. Fences, reads and recovery adds work while the reserve lasts."""
        return self._upkeep.writable

    @property
    def limbo(self) -> bool:
        """Journal damage was accepted at a start: absence is never proved until `clear_limbo`.

        docs/bookkeeper.md#limbo, docs/pitfalls.md#doubt-answered-as-absence.
        """
        return self._states.limbo

    # ---- ledgers

    def ledger(self, ledger_id: int) -> StoredLedger | None:
        """The ledger's state (also of a deleted one), None if it was certainly never here.

        StorageError if the index cannot tell, LimboError if the storage is in limbo and does not know it.
        """
        state = self._states.get(ledger_id)
        if state is None and self.limbo:
            raise LimboError(
                f"ledger {ledger_id} is unknown, but part of the journal was lost: ask another bookie",
                ledger_id=ledger_id,
            )
        return state

    def ledger_in_memory(self, ledger_id: int) -> StoredLedger | None:
        """As `ledger`, of what takes no look at the disk; None says nothing. For who watches and must not disturb."""
        return self._states.in_memory(ledger_id)

    def create_ledger(self, ledger_id: int, master_key: bytes) -> StoredLedger:
        """Note a ledger that `ledger` does not know. Its key is durable before any add or fence of it."""
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
        """Ascending ids of the ledgers that are here and not deleted. Scans every state in place. StorageError."""
        return self._states.ledger_ids()

    async def list_ledgers(self) -> list[int]:
        """The same, with a scan that does not hold up the loop."""
        return await self._states.list_ledgers(self._storage_worker)

    # ---- changes

    def add(self, state: StoredLedger, run: EntryRun, on_durable: OnDurable) -> None:
        """Take a run of entries of one ledger, in the order received; visible to reads at once.

        Views are kept without copying; each is one entry as stored: ledger id, entry id, LAC, length,
        digest, payload (at least the first three, 24 bytes; ids checked by the caller). The caller has checked
        key, fence and `deleted`. Errors given to `on_durable`: EntryConflictError (see there), DiskFullError,
        DiskFailedError, StorageError. A repeated entry with the same payload is success.
        """
        if self._refused(state, on_durable):
            return
        ids = run.ids
        if ids[0] > state.last_entry and all(map(lt, ids, ids[1:])):
            self._accept(state, ids, run.entries, on_durable)
        else:
            self._add_late(state, run, on_durable)

    def _accept(
        self,
        state: StoredLedger,
        ids: Sequence[int],
        entries: Sequence[StoredEntry],
        on_durable: OnDurable,
        again: Sequence[StoredEntry] = (),
    ) -> None:
        """Take new entries with ascending ids, and those that are here and are journaled `again`."""
        lengths = list(map(len, entries))
        if ids:
            self._advance(state, ids[-1], entries[-1])
            self._caches.active.put(state.ledger_id, _as_range(ids), entries, sum(lengths))
        if again:
            lengths += map(len, again)
            entries = [*entries, *again]
        # One item with its own callback: a barrier after it would say nothing of an item that met a full disk.
        self._journal.append_adds(lengths, entries, on_durable)
        if self._caches.active.size >= self._config.write_cache_bytes_max:
            self._upkeep.flush()

    def _advance(self, state: StoredLedger, last: int, last_entry: StoredEntry) -> None:
        # A writer's LAC never falls, so the last entry of a run carries the highest.
        lac = int.from_bytes(last_entry[16:24], "big", signed=True)
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
        # What is here is journaled once more: the first time may have met a full disk.
        self._accept(state, new.ids, new.entries, on_durable, new.repeated)

    def _stored(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        if entry_id > state.last_entry:
            return None
        entry = self.read_cached(state, entry_id)
        if entry is None:
            block = self._reader.load_in_place(state.ledger_id, entry_id)
            entry = None if block is None else block.entry(entry_id)
        return entry

    def fence(self, state: StoredLedger, on_durable: OnDurable) -> None:
        """Set `state.fenced` now; durable, with every add accepted before, when `on_durable` is called."""
        if self._refused(state, on_durable):
            return
        if state.fence_durable:
            self._journal.barrier(on_durable)
            return

        def on_fence_durable(error: Exception | None) -> None:
            state.fence_durable = state.fence_durable or error is None
            on_durable(error)

        state.fenced = True
        self._states.changed(state)
        self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), on_fence_durable)

    def set_explicit_lac(self, state: StoredLedger, packet: bytes, lac: int, on_durable: OnDurable) -> None:
        """Keep the packet if `lac` is the highest so far; it or a higher one is durable when `on_durable` is called."""
        if self._refused(state, on_durable):
            return
        if keep_explicit_lac(state, lac, bytes(packet)):
            self._states.changed(state)
        if state.explicit_lac is None:  # below -1, which says less than nothing
            self._loop.call_soon(on_durable, None)
            return
        # A higher one is journaled once more: the first time may have met a full disk.
        body = explicit_lac_body(state.ledger_id, state.explicit_lac_value, state.explicit_lac)
        self._journal.append(RecordType.EXPLICIT_LAC, body, on_durable)

    def force(self, on_durable: OnDurable) -> None:
        """Everything accepted before this call is durable when `on_durable` is called."""
        if not self._refused(None, on_durable):
            self._journal.barrier(on_durable)

    def delete_ledger(self, ledger_id: int, on_durable: OnDurable) -> None:
        """Set `deleted` now and for ever; entries go away, their space when whole entry logs are dead."""
        state = self._states.get(ledger_id) or self._states.create(ledger_id, b"")
        if self._refused(None, on_durable):
            return
        state.deleted = True
        self._states.changed(state)
        self._parts.deleted.append(ledger_id)
        self._caches.drop(ledger_id)
        self._reader.forget_ledger(ledger_id)
        self._journal.append(RecordType.TOMBSTONE, ledger_body(ledger_id), on_durable)

    def _refused(self, state: StoredLedger | None, on_durable: OnDurable) -> bool:
        """True if the storage takes no change any more (the caller was or will be told)."""
        error = self.failed or (StorageClosedError("the storage is closed") if self._closed else None)
        if error is not None:
            self._loop.call_soon(on_durable, error)
            return True
        if state is not None and state.ledger_id in self._keyless:
            self._journal_key(state)
        return False

    # ---- reads

    def read_cached(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        """The entry if it is in memory. None says nothing: go on with `read`."""
        ledger_id = state.ledger_id
        entry = self._caches.entry(ledger_id, entry_id)
        if entry is None:
            block = self._reader.cached_block(ledger_id, entry_id)
            entry = None if block is None else block.entry(entry_id)
        return entry

    async def read(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        """The entry as stored, None if proved absent. StorageError on any doubt."""
        entry = None if state.deleted else self.read_cached(state, entry_id)
        if entry is None and 0 <= entry_id <= state.last_entry and not state.deleted:
            block = await self._reader.load(state.ledger_id, entry_id)
            entry = None if block is None else block.entry(entry_id)
            # While we waited, a late add may have put it into memory.
            entry = entry or self._caches.entry(state.ledger_id, entry_id)
        if entry is None:
            self._check_absence(state)
            _require_not_lost(state, entry_id)
        return entry

    def _check_absence(self, state: StoredLedger) -> None:
        if state.limbo or self.limbo:
            raise LimboError(
                f"ledger {state.ledger_id} is in limbo: entries may have been lost; ask another bookie",
                ledger_id=state.ledger_id,
            )

    async def read_batch(
        self, state: StoredLedger, first: int, max_count: int, max_bytes: int
    ) -> list[StoredEntry]:
        """Consecutive entries from `first` on, up to the first gap; empty if `first` is proved absent.

        Stops at `max_count` entries (no limit if 0 or less), or before entries plus 4 bytes each exceed
        `max_bytes`; the first entry always comes. StorageError only if it concerns the first entry.
        """
        found: list[StoredEntry] = []
        room = max_bytes
        while 0 <= first <= state.last_entry and not state.deleted and not 0 < max_count <= len(found):
            wanted = max_count - len(found) if max_count > 0 else _AT_ONCE_MAX
            run = self._consecutive(state.ledger_id, first, min(wanted, _AT_ONCE_MAX))
            if not run:
                entry = await self._load_next(state, first, tolerant=bool(found))
                if entry is None:
                    break
                run = (entry,)
            first += len(run)
            for entry in run:
                room -= len(entry) + 4
                if room < 0 and found:
                    return found
                found.append(entry)
        if not found:
            self._check_absence(state)
            _require_not_lost(state, first)
        return found

    def _consecutive(self, ledger_id: int, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """The entry and some that follow it, if they are in memory; so that a batch costs little per entry."""
        found: Sequence[StoredEntry] = self._caches.consecutive(ledger_id, entry_id, count_max)
        if not found:
            block = self._reader.cached_block(ledger_id, entry_id)
            found = () if block is None else block.consecutive(entry_id, count_max)
        return found

    async def _load_next(self, state: StoredLedger, entry_id: int, *, tolerant: bool) -> StoredEntry | None:
        try:
            block = await self._reader.load(state.ledger_id, entry_id, sequential=True)
        except LogStoreError:
            if tolerant:
                return None
            raise
        entry = None if block is None else block.entry(entry_id)
        return entry or self._caches.entry(state.ledger_id, entry_id)

    def last_entry(self, state: StoredLedger) -> int:
        """Highest entry id accepted, -1 for none. LimboError if the ledger is in limbo."""
        self._check_absence(state)
        return state.last_entry

    async def entry_ranges(self, state: StoredLedger) -> list[tuple[int, int]]:
        """Ascending, disjoint (first, last) ranges of all entries that are here. StorageError, LimboError."""
        self._check_absence(state)
        before = self._caches.ranges(state.ledger_id)
        stored = await self._reader.ranges(state.ledger_id)
        # A flush may have ended meanwhile: then the entries are in both or only in the first two.
        found = merge_ranges([*before, *stored, *self._caches.ranges(state.ledger_id)])
        if not found or found[-1][1] < state.last_entry:
            _require_not_lost(state, state.last_entry)
        return found

    # ---- load

    @property
    def bytes_pending(self) -> int:
        """Bytes accepted and not yet in an entry log, with their overhead."""
        return self._caches.size

    @property
    def has_room(self) -> bool:
        """False while `wait_for_room` would wait: stop reading from connections.

        While a full disk holds up the checkpoint, normal adds are refused (`writable` is false), and fences,
        reads and recovery adds must not wait for it: what they need is bounded by the journal's reserve.
        """
        if self._journal.queued_bytes >= self._config.journal_queue_bytes_max:
            return False
        return self._caches.active.size < self._config.write_cache_bytes_max or self._upkeep.held_up

    async def wait_for_room(self) -> None:
        """Return once there is room in the write cache and in the journal's queue, or on failure."""
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
        """What could not be made for want of space or descriptors, until it can be."""
        return self._upkeep.shortage

    def usage(self) -> list[DirectoryUsage]:
        """Last measured size and room of each directory; never blocks."""
        return self._upkeep.usages

    # ---- upkeep

    async def checkpoint(self) -> None:
        """Bring everything accepted so far into entry logs and index; drop journals no longer needed.

        DiskFullError: not now, the journal keeps it. Any other error is also `failed`.
        """
        await self._durable()
        await self._upkeep.checkpoint()
        if self.failed is not None:
            raise self.failed

    async def _durable(self) -> None:
        error = await until_durable(self.force)
        if error is not None and not isinstance(error, DiskFullError):
            raise error

    async def check_disk(self) -> None:
        """Measure the disks now, take the reserves back if there is room, set `writable`."""
        await self._upkeep.check_disk()

    async def remove_dead_logs(self) -> int:
        """Delete entry logs in which no ledger lives any more; how many were deleted."""
        return await self._upkeep.remove_dead_logs()

    async def clear_limbo(self) -> None:
        """Every ledger was checked against its other replicas: absence can be proved again."""
        await self._upkeep.clear_limbo()

    async def close(self) -> None:
        """Drain the journal, checkpoint, stop the workers. After a failure: only stop the workers."""
        if self._closed:
            return
        try:
            if self.failed is None:
                await self.checkpoint()
        except LogStoreError:
            pass  # the journal has it all; the next start replays it
        finally:
            self._closed = True
            self._wake()
            await self._stop()

    async def _stop(self) -> None:
        await self._upkeep.close()
        await self._reader.close()
        await self._journal_worker.run(self._parts.files.close)
        await self._journal_worker.close()
        await self._storage_worker.run(self._close_files)
        await self._storage_worker.close()

    def _close_files(self) -> None:
        self._parts.writer.close()
        self._parts.state_log.close()
        self._parts.index.close()

    def _fail(self, error: Exception) -> None:
        if self.failed is None:
            self.failed = error
            self._upkeep.give_up()
            self._wake()
            self.on_failure(error)

    def _announce(self, writable: bool) -> None:
        self._wake()
        self.on_writable_change(writable)


def _require_not_lost(state: StoredLedger, entry_id: int) -> None:
    """StorageError if the entry, which was not found, is the last one: that was accepted, so it was lost."""
    if entry_id == state.last_entry and entry_id >= 0 and not state.deleted:
        raise StorageError(
            f"entry {entry_id} of ledger {state.ledger_id}, the last one accepted, is missing in the index or the "
            "entry log: read it from another bookie",
            ledger_id=state.ledger_id,
            entry_id=entry_id,
        )


def _ignore(_value: object) -> None:
    """Until the server has set its own callback."""


def _as_range(ids: Sequence[int]) -> Sequence[int]:
    first, last = ids[0], ids[-1]
    return range(first, last + 1) if last - first + 1 == len(ids) else ids
