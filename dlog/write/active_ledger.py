"""One ledger as its writer uses it: the handle, and the entries in flight in the order of their ids."""

from __future__ import annotations

from collections import deque

from dlog.core.rotation_triggers import LedgerUse
from dlog.model import SealFacts
from dlog.write.pending_entry import PendingEntry
from ledger.errors import LogStoreError
from ledger.model import LedgerId, LedgerMetadata
from ledger.writing.write_handle import WriteHandle


class ActiveLedger:
    """Acks are delivered only while `released`: those of the next ledger wait for this one's seal."""

    def __init__(self, handle: WriteHandle, use: LedgerUse) -> None:
        self.handle = handle
        self.ledger_id: LedgerId = handle.ledger_id
        self.use = use
        self.released = False
        self.detached = False
        """Given up by the writer: what the handle still reports is caused by a recovery."""
        self._pending: deque[PendingEntry] = deque()
        self._messages_acked = 0
        self._first_append_us = 0
        self._last_append_us = 0

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest entry in flight was accepted, in loop time; None without any."""
        return self._pending[0].accepted_at if self._pending else None

    def submit(self, pending_entry: PendingEntry, now: float) -> None:
        """Submit an encoded entry to the ledger; it gets the next entry id."""
        pending_entry.entry_id = self.handle.submit(pending_entry.entry)
        self._pending.append(pending_entry)
        use = self.use
        use.bytes_taken += len(pending_entry.entry)
        use.entries_taken += 1
        use.last_append_at = now

    def deliver(self, through: int) -> tuple[int, int]:
        """Acknowledge what is in flight up to entry `through`; return the number of entries and bytes."""
        pending, ledger_id = self._pending, self.ledger_id
        entries = size = 0
        while pending and pending[0].entry_id <= through:
            pending_entry = pending.popleft()
            entries += 1
            size += pending_entry.size
            self._messages_acked += pending_entry.count
            if not self._first_append_us:
                self._first_append_us = pending_entry.append_time_us
            self._last_append_us = pending_entry.append_time_us
            pending_entry.succeed(ledger_id)
        return entries, size

    def take_back(self) -> list[PendingEntry]:
        """Remove and return everything in flight, in order."""
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def detach(self, error: LogStoreError) -> None:
        """Stop the handle; nothing that it reports counts from now on."""
        self.detached = True
        self.handle.abandon(error)

    def seal_facts(self, metadata: LedgerMetadata) -> SealFacts:
        """The facts to record once the ledger is CLOSED and everything up to its last entry was delivered."""
        return SealFacts(
            last_entry=metadata.last_entry,
            message_count=self._messages_acked,
            byte_count=metadata.length,
            first_append_us=self._first_append_us,
            last_append_us=self._last_append_us,
        )
