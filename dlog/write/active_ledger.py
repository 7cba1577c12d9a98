"""One ledger as its writer creates and uses it: the handle, and the entries in flight in the order of their ids.

Its tags attribute it to the log if it becomes an orphan.
"""

from __future__ import annotations

import asyncio
from collections import deque

from dlog.config import LogConfig
from dlog.core.degraded import fallback_quorum, fallback_tags
from dlog.core.metadata_keys import ledger_tags
from dlog.core.rotation_triggers import LedgerUse
from dlog.metadata.log_ref import LogRef
from dlog.model import Owner, SealFacts
from dlog.write.pending_entry import PendingEntry
from ledger.client import LedgerClient
from ledger.errors import LogStoreError, NotEnoughBookiesError
from ledger.model import LedgerId, LedgerMetadata, QuorumSizes
from ledger.writing.write_handle import WriteHandle


class ActiveLedger:
    """Acks are delivered only while `released`: those of the next ledger wait for this one's seal."""

    __slots__ = (
        "_bytes_acked",
        "_first_append_us",
        "_last_append_us",
        "_messages_acked",
        "_pending",
        "bytes_at_snapshot",
        "detached",
        "handle",
        "ledger_id",
        "messages_submitted",
        "released",
        "snapshot_entry",
        "use",
    )

    def __init__(self, handle: WriteHandle, use: LedgerUse) -> None:
        self.handle = handle
        self.ledger_id: LedgerId = handle.ledger_id
        self.use = use
        self.released = False
        self.detached = False
        """Given up by the writer: what the handle still reports is caused by a recovery."""
        self.messages_submitted = 0
        """In all entries of the ledger, acknowledged or not."""
        self.snapshot_entry: int | None = None
        """The newest entry with a snapshot of the log's producers."""
        self.bytes_at_snapshot = 0
        """Bytes in the ledger up to the end of that entry."""
        self._pending: deque[PendingEntry] = deque()
        self._messages_acked = 0
        self._bytes_acked = 0
        self._first_append_us = 0
        self._last_append_us = 0

    @property
    def next_entry_id(self) -> int:
        """The id that the next entry gets."""
        return self.handle.last_add_pushed + 1

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def submit(self, pending_entry: PendingEntry, now: float, *, flushes: bool) -> int:
        """Submit an encoded entry to the ledger; return its id, the next one. `flushes` as of `WriteHandle.submit`."""
        entry, use = pending_entry.entry, self.use
        entry_id = pending_entry.entry_id = self.handle.submit(entry, flushes=flushes)
        self._pending.append(pending_entry)
        self.messages_submitted += pending_entry.count
        use.bytes_taken += len(entry)
        use.entries_taken += 1
        use.last_append_at = now
        return entry_id

    def deliver(self, through: int) -> tuple[int, int]:
        """Acknowledge what is in flight up to entry `through`; return the number of entries and bytes."""
        pending, ledger_id = self._pending, self.ledger_id
        entries = size = 0
        while pending and pending[0].entry_id <= through:
            pending_entry = pending.popleft()
            entries += 1
            size += pending_entry.size
            self._messages_acked += pending_entry.count
            self._bytes_acked += len(pending_entry.entry)
            self._last_append_us = pending_entry.append_time_us
            if not self._first_append_us:
                self._first_append_us = self._last_append_us
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
        """The facts to record once the ledger is CLOSED and everything up to its last entry was delivered.

        The bytes are the writer's own count: a recovery that could not read the last entry has closed the ledger with
        a length that may be too small.
        """
        return SealFacts(
            last_entry=metadata.last_entry,
            message_count=self._messages_acked,
            byte_count=self._bytes_acked,
            first_append_us=self._first_append_us,
            last_append_us=self._last_append_us,
        )


class LedgerMaker:
    """Creates ledgers for one writer or candidate."""

    def __init__(self, ref: LogRef, owner: Owner, ledgers: LedgerClient, config: LogConfig) -> None:
        self._ref = ref
        self._owner = owner
        self._ledgers = ledgers
        self._config = config

    async def create(self, epoch: int) -> ActiveLedger:
        """Create a ledger for this epoch, with fewer bookies than configured if the policy allows it.

        Raises:
            NotEnoughBookiesError: the policy permits no smaller ensemble.

        Source: docs/log-semantics.md#rule-19b.
        """
        wanted = self._config.quorum
        try:
            return self._active_ledger(await self._create(wanted, epoch), degraded=False)
        except NotEnoughBookiesError:
            live = len(self._ledgers.bookies().writable)
            smaller = fallback_quorum(wanted, live, self._config.degraded)
            if smaller is None:
                raise
        return self._active_ledger(await self._create(smaller, epoch, fallback_tags(wanted)), degraded=True)

    async def _create(
        self, quorum: QuorumSizes, epoch: int, more: tuple[tuple[str, bytes], ...] = ()
    ) -> WriteHandle:
        tags = ledger_tags(
            root=self._ref.root,
            log=self._ref.name,
            log_uuid=self._ref.log_uuid,
            epoch=epoch,
            owner=self._owner,
            created_us=self._ledgers.environment.wall_us(),
        )
        return await self._ledgers.create(
            quorum,
            digest_type=self._config.digest_type,
            password=self._config.password,
            custom=(*tags, *more),
            visibility=self._config.visibility,
        )

    def _active_ledger(self, handle: WriteHandle, *, degraded: bool) -> ActiveLedger:
        now = asyncio.get_running_loop().time()
        use = LedgerUse(opened_at=now, chance=self._ledgers.environment.rng.random(), degraded=degraded)
        use.last_append_at = now
        return ActiveLedger(handle, use)
