"""What a bookie does for its clients, in either version of the protocol.

Invariant: a request is refused or accepted in one step on the event loop, so the adds, fences and reads of a ledger
have one serial order. A response that promises something is sent when that is durable.

Outcomes go to a callback, which is called once, possibly before the call returns; for writes that arrived together,
once for each part of them that has one outcome. Writes need no task, no future and no timer.

Protocol: docs/bookkeeper.md#bookie-answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from bookie_server.disk.disk_limits import total_space
from bookie_server.errors import DiskFullError, EntryConflictError, LimboError
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.refusals import Writability, refuse_add, refuse_read, refuse_write_lac
from bookie_server.protocol.requests import AddRun
from bookie_server.storage.damage_reports import DamageReports
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import StoredEntry
from ledger.environment import Environment
from ledger.errors import LogStoreError
from ledger.wire.constants import LAST_ENTRY
from ledger.wire.status import Status
from ledger.wire.write_lac import WrittenLac

OnStatus = Callable[[Status], None]
OnAdded = Callable[[Sequence[AddRun], Status, frozenset[int]], None]
"""Some of the runs, their status, and the entries of them that were refused because other bytes hold their ids."""
OnLacs = Callable[[Sequence[WrittenLac], Status], None]
"""Some of the LACs, and their status."""

NONE_REFUSED: frozenset[int] = frozenset()
_LAC = Struct(">q")
_LAC_OFFSET = 8
"""Of an explicit LAC's packet: after the ledger id."""
BATCH_ENTRIES_MAX = 10_000
"""Of one batch read, whatever was asked for.

Its answer is made in one step on the event loop, and a frame holds 190,000 of the shortest entries.
"""


class DiskRoom(NamedTuple):
    total_bytes: int
    free_bytes: int


class Found(NamedTuple):
    """Outcome of a read: EOK with the entry as stored, or what stands in its place."""

    status: Status
    entry: StoredEntry = b""


def status_of(error: Exception | None) -> Status:
    """The status for an outcome of the storage. Anything unforeseen is EIO, which proves nothing."""
    match error:
        case None:
            return Status.EOK
        case LimboError():
            return Status.EUNKNOWNLEDGERSTATE
        case DiskFullError():
            return Status.EREADONLY
        case _:
            return Status.EIO


class BookieService:
    """Storage, waiting readers and writability, shared by all connections."""

    def __init__(self, storage: LedgerStorage, watchers: LacWatchers, environment: Environment) -> None:
        self.storage = storage
        self.watchers = watchers
        self.writability = Writability()
        self.damage = DamageReports()
        self.read_requests = 0
        """Reads of an entry or a batch that were asked for, long polls apart."""
        self._environment = environment

    def wall_ms(self) -> int:
        """Wall clock, in ms since 1970, for the time a LAC moved. Diagnostic only."""
        return self._environment.wall_us() // 1000

    def disk_room(self) -> DiskRoom:
        """Size and free space of the ledger directories, each file system counted once.

        As in Apache's bookies, not of the journal's: clients weigh bookies by the space for entries.
        """
        return DiskRoom(*total_space(self.storage.ledger_usage()))

    def ledger(self, ledger_id: int) -> StoredLedger | None:
        """What is known of the ledger; nothing of a negative id, which no ledger can have."""
        return None if ledger_id < 0 else self.storage.ledger(ledger_id)

    def add(self, runs: Sequence[AddRun], done: OnAdded) -> None:
        """Store runs of entries; `done` gets EOK for those that are durable."""
        writability, watchers = self.writability, self.watchers
        accepted: list[tuple[StoredLedger, AddRun]] = []
        for run in runs:
            ledger_id, key, recovery, priority, _, _, _ = run
            try:
                ledger = self.ledger(ledger_id)
                refusal = refuse_add(
                    writability, ledger, ledger_id, key, recovery=recovery, priority=priority
                )
                if refusal is not None:
                    done((run,), refusal, NONE_REFUSED)
                    continue
                if ledger is None:
                    ledger = self.storage.create_ledger(ledger_id, key)
            except LimboError:
                # Whether the ledger was fenced here is not known: the writer must use another bookie.
                done((run,), Status.EREADONLY, NONE_REFUSED)
                continue
            except LogStoreError as error:
                done((run,), status_of(error), NONE_REFUSED)
                continue
            accepted.append((ledger, run))
        self.storage.add(accepted, partial(_report_added, done))
        if watchers:
            for ledger, _ in accepted:
                watchers.advanced(ledger.ledger_id, ledger.lac)

    def write_lacs(self, lacs: Sequence[WrittenLac], done: OnLacs) -> None:
        """Keep explicit LACs; `done` gets EOK for those that are durable."""
        writability, watchers = self.writability, self.watchers
        accepted: list[WrittenLac] = []
        packets: list[tuple[StoredLedger, bytes, int]] = []
        for lac in lacs:
            _, _, ledger_id, key, packet = lac
            try:
                ledger = self.ledger(ledger_id)
                refusal = refuse_write_lac(writability, ledger, ledger_id, key, packet)
                if refusal is not None:
                    done((lac,), refusal)
                    continue
                if ledger is None:
                    ledger = self.storage.create_ledger(ledger_id, key)
            except LogStoreError as error:
                done((lac,), status_of(error))
                continue
            accepted.append(lac)
            packets.append((ledger, packet, _LAC.unpack_from(packet, _LAC_OFFSET)[0]))
        self.storage.set_explicit_lacs(packets, partial(_report_lacs, done, accepted))
        if watchers:
            for ledger, _, _ in packets:
                watchers.advanced(ledger.ledger_id, ledger.lac)

    def force(self, done: OnStatus) -> None:
        """`done` gets EOK when everything accepted so far is durable."""
        self.storage.force(partial(_report, done))

    def readable(self, ledger_id: int, entry_id: int) -> StoredLedger | Status:
        """The ledger of a plain read, or the status that ends it."""
        try:
            ledger = self.ledger(ledger_id)
        except LogStoreError as error:
            return status_of(error)
        refusal = refuse_read(ledger, ledger_id, entry_id)
        if refusal is not None:
            return refusal
        assert ledger is not None, "refuse_read passes known ledgers only"
        return ledger

    def read_cached(self, ledger: StoredLedger, entry_id: int) -> StoredEntry | None:
        """The entry if it is in memory; None proves nothing."""
        if entry_id != LAST_ENTRY:
            return self.storage.read_cached(ledger, entry_id)
        if ledger.limbo or ledger.last_entry < 0:
            return None
        return self.storage.read_cached(ledger, ledger.last_entry)

    async def read(self, ledger: StoredLedger, entry_id: int) -> Found:
        """One entry, or the last one."""
        try:
            if entry_id == LAST_ENTRY:
                entry_id = self.storage.last_entry(ledger)
                if entry_id < 0:
                    return Found(Status.ENOENTRY)
            entry = await self.storage.read(ledger, entry_id)
        except LogStoreError as error:
            self.damage.note(error)
            return Found(status_of(error))
        return Found(Status.ENOENTRY) if entry is None else Found(Status.EOK, entry)

    async def read_batch(
        self, ledger: StoredLedger, first: int, max_count: int, max_bytes: int
    ) -> tuple[Status, list[StoredEntry]]:
        """Entries from `first` on while they fit; the first one whatever its size."""
        try:
            if first == LAST_ENTRY:
                first = self.storage.last_entry(ledger)
                max_count = 1
            count_max = min(max_count, BATCH_ENTRIES_MAX) if max_count > 0 else BATCH_ENTRIES_MAX
            entries = await self.storage.read_batch(ledger, first, count_max, max_bytes) if first >= 0 else []
        except LogStoreError as error:
            self.damage.note(error)
            return status_of(error), []
        return (Status.EOK if entries else Status.ENOENTRY), entries


def _report(done: OnStatus, error: Exception | None) -> None:
    done(status_of(error))


def _report_added(
    done: OnAdded, adds: Sequence[tuple[StoredLedger, AddRun]], error: Exception | None
) -> None:
    runs = [run for _, run in adds]
    if isinstance(error, EntryConflictError):
        done(runs, Status.EOK, error.entry_ids)
    else:
        done(runs, status_of(error), NONE_REFUSED)


def _report_lacs(done: OnLacs, lacs: Sequence[WrittenLac], error: Exception | None) -> None:
    done(lacs, status_of(error))
