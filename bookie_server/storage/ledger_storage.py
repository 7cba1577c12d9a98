"""The storage of one bookie: journal, write cache, entry logs and index behind one face.

Law: everything synchronous here runs on the event loop and is therefore one serial order per ledger; file
I/O runs in the disk's workers. `None` and -1 mean *proved absent*; every doubt is a StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk import Disk
from bookie_server.storage.ledger_state import LedgerState
from bookie_server.storage_config import StorageConfig
from ledger.environment import Environment

OnDurable = Callable[[Exception | None], None]
"""Called exactly once, on the loop, never before the call that took it has returned."""

StoredEntry = bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryUsage:
    """Size and room of the file system under one of the bookie's directories, in bytes."""

    directory: Path
    total_bytes: int
    free_bytes: int


class LedgerStorage:
    """All ledgers of one bookie."""

    failed: Exception | None
    """The first journal or storage error. From then on everything is answered with it, until restart."""
    on_failure: Callable[[Exception], None]
    """Called once, on the loop, when `failed` is set. The server stops with its message."""
    on_writable_change: Callable[[bool], None]
    """Called on the loop when `writable` changes (disk above or below its limit)."""
    writable: bool
    """False: refuse normal adds. Fences, reads and recovery adds work while the reserve lasts."""
    limbo: bool
    """Journal damage was accepted at start: absence is never proved until `clear_limbo`."""

    @classmethod
    async def open(cls, config: StorageConfig, disk: Disk, environment: Environment) -> LedgerStorage:
        """Open or create the directories, replay the journal's tail, start the workers.

        JournalDamagedError, JournalVersionError, IndexDamagedError, DiskFullError, DiskFailedError.
        """
        raise NotImplementedError

    # ---- ledgers

    def ledger(self, ledger_id: int) -> LedgerState | None:
        """The ledger's state (also of a deleted one), None if it was certainly never here.

        StorageError if the index cannot tell, LimboError if the storage is in limbo and does not know it.
        """
        raise NotImplementedError

    def create_ledger(self, ledger_id: int, master_key: bytes) -> LedgerState:
        """Note a ledger that `ledger` does not know. Its key is durable before any add or fence of it."""
        raise NotImplementedError

    def ledger_ids(self) -> Iterable[int]:
        """Ascending ids of the ledgers that are here and not deleted."""
        raise NotImplementedError

    # ---- changes

    def add(
        self, state: LedgerState, entries: Sequence[tuple[int, memoryview]], on_durable: OnDurable
    ) -> None:
        """Take a run of entries of one ledger, in the order received; visible to reads at once.

        Views are kept without copying; each is one entry as stored: ledger id, entry id, LAC, length,
        digest, payload (at least 32 bytes, ids checked by the caller). The caller has checked key, fence and
        `deleted`. Errors given to `on_durable`: EntryConflictError (see there), DiskFullError,
        DiskFailedError, StorageError. A repeated entry with the same payload is success.
        """
        raise NotImplementedError

    def fence(self, state: LedgerState, on_durable: OnDurable) -> None:
        """Set `state.fenced` now; durable, with every add accepted before, when `on_durable` is called."""
        raise NotImplementedError

    def set_explicit_lac(self, state: LedgerState, packet: bytes, lac: int, on_durable: OnDurable) -> None:
        """Keep the packet if `lac` is the highest so far; durable when `on_durable` is called."""
        raise NotImplementedError

    def force(self, on_durable: OnDurable) -> None:
        """Everything accepted before this call is durable when `on_durable` is called."""
        raise NotImplementedError

    def delete_ledger(self, ledger_id: int, on_durable: OnDurable) -> None:
        """Set `deleted` now and for ever; entries go away, their space when whole entry logs are dead."""
        raise NotImplementedError

    # ---- reads

    def read_cached(self, state: LedgerState, entry_id: int) -> StoredEntry | None:
        """The entry if it is in memory. None says nothing: go on with `read`."""
        raise NotImplementedError

    async def read(self, state: LedgerState, entry_id: int) -> StoredEntry | None:
        """The entry as stored, None if proved absent. StorageError on any doubt."""
        raise NotImplementedError

    async def read_batch(
        self, state: LedgerState, first: int, max_count: int, max_bytes: int
    ) -> list[StoredEntry]:
        """Consecutive entries from `first` on, up to the first gap; empty if `first` is proved absent.

        Stops at `max_count` entries, or before entries plus 4 bytes each exceed `max_bytes`; the first entry
        always comes. StorageError only if it concerns the first entry.
        """
        raise NotImplementedError

    def last_entry(self, state: LedgerState) -> int:
        """Highest entry id accepted, -1 for none. LimboError if the ledger is in limbo."""
        raise NotImplementedError

    def entry_ids(self, state: LedgerState) -> list[tuple[int, int]]:
        """Ascending, disjoint (first, last) ranges of the entries that are here."""
        raise NotImplementedError

    # ---- load

    @property
    def bytes_pending(self) -> int:
        """Bytes accepted and not yet in an entry log, with their overhead."""
        raise NotImplementedError

    @property
    def has_room(self) -> bool:
        """False while `wait_for_room` would wait: stop reading from connections."""
        raise NotImplementedError

    async def wait_for_room(self) -> None:
        """Return once there is room in the write cache and in the journal's queue, or on failure."""
        raise NotImplementedError

    def usage(self) -> list[DirectoryUsage]:
        """Last measured size and room of each directory; never blocks."""
        raise NotImplementedError

    # ---- upkeep

    async def checkpoint(self) -> None:
        """Bring everything accepted so far into entry logs and index; drop journals no longer needed."""
        raise NotImplementedError

    async def check_disk(self) -> None:
        """Measure the disks now, take or release the reserve, set `writable`."""
        raise NotImplementedError

    async def remove_dead_logs(self) -> int:
        """Delete entry logs in which no ledger lives any more; how many were deleted."""
        raise NotImplementedError

    async def clear_limbo(self) -> None:
        """Every ledger was checked against its other replicas: absence can be proved again."""
        raise NotImplementedError

    async def close(self) -> None:
        """Drain the journal, checkpoint, stop the workers. After a failure: only stop the workers."""
        raise NotImplementedError
