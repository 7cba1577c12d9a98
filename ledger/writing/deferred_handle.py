"""The writer of a ledger whose entries are synced only on request (docs/bookkeeper.md#deferred-sync).

    add    ──► adds with writeFlags 1, version 3 ──► stored on an ack quorum, perhaps in memory only
    force  ──► FORCE_LEDGER to every member ──► all have answered: confirmed

Invariant: only a force confirms. Every member syncs what it has when the force comes, so an entry that was on its ack
quorum by then is durable there. The ensemble never changes: a new member would lack entries that no client has kept.

So the policy of its stream: headers carry the LAC of the last force, and a failed member ends the writer.
"""

from __future__ import annotations

import asyncio
import itertools

from ledger.arguments import as_bytes
from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.errors import (
    AddFailedError,
    LedgerClosedError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.model import NO_ENTRY, BookieSet, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.refusal import too_large
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.force import force
from ledger.transport.v3_connection import V3Connection
from ledger.wire.entry import Buffer
from ledger.writing.add_stream import AddPolicy, AddStream
from ledger.writing.closing import write_closed
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.pending_adds import AddKind
from ledger.writing.waiters import Waiters


class DeferredWriteHandle(AddPolicy):
    """Obtained from `LedgerClient.create_deferred`. Speaks version 3, which alone has these messages.

    A bookie that fails fails the handle; the ledger must then be recovered. Readers learn the LAC from entries added
    after a force, and from the close.
    """

    def __init__(
        self, ledger_id: LedgerId, metadata: Versioned[LedgerMetadata], context: ClientContext
    ) -> None:
        self.ledger_id = ledger_id
        self.failed: LogStoreError | None = None
        self.lac = NO_ENTRY
        """What the last force has made durable."""
        self._length = 0
        """Payload bytes up to the LAC."""
        self._local = metadata
        self._context = context
        self._stream = AddStream(
            ledger_id,
            metadata.value,
            self,
            context.pool.v3_connections,
            kind=AddKind.DEFERRED,
            # Its "confirmed" is what is stored on ack quorums here.
            visibility=Visibility.FAST,
            txn_ids=itertools.count(1),
            add_timeout_s=context.config.add_timeout_s,
        )
        self._connecting = asyncio.Lock()
        self._is_connected = False
        self._waiters = Waiters()
        self._closing = False

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this handle last wrote or read it."""
        return self._local.value

    async def add(self, payload: Buffer) -> EntryId:
        """Add an entry and return its id once it is on its ack quorum; it may be lost until the next `force`.

        Raises:
            EntryTooLargeError: the entry exceeds `entry_bytes_max`; nothing happened.
            LedgerFencedError: another client recovers the ledger.
            AddFailedError: a bookie failed, or the client was closed; entries up to `error.lac` are durable.
            LedgerClosedError: the handle is closed; the entry is not in the ledger.
            UnauthorizedError: a bookie refused the password.
        """
        data = as_bytes(payload)
        overhead, limit = self._stream.pending.digester.overhead_bytes, self._context.config.entry_bytes_max
        if len(data) + overhead > limit:
            raise too_large(len(data), overhead, limit)
        await self._connect()
        self._stream.send([data], self.lac)
        entry_id = self._stream.machine.sent_through
        self._check()
        if self._stream.machine.lac < entry_id:
            await self._waiters.add(entry_id)
        return entry_id

    async def _connect(self) -> None:
        self._check()
        async with self._connecting:
            if not self._is_connected:
                await asyncio.gather(*(self._stream.connected(member) for member in self._stream.members))
                self._check()
                self._is_connected = True

    async def force(self) -> EntryId:
        """Make every entry whose add has returned durable on its ack quorum; return the id of the last one.

        Raises:
            BookieUnavailableError: a member did not answer, or with an error; nothing is confirmed by this call.
            The error by which the handle failed, as in `add`.
        """
        self._check()
        stored, length = self._stream.machine.lac, self._stream.pending.confirmed_length
        if stored == self.lac:
            return self.lac
        connections = [member.connection for member in self._stream.members]
        await asyncio.gather(*(self._force(connection) for connection in connections))
        self._check()  # the LAC at which a close has begun stays
        if stored > self.lac:
            self.lac, self._length = stored, length
        return self.lac

    async def _force(self, connection: EntryConnection | None) -> None:
        assert isinstance(connection, V3Connection), "all members are connected before the first add"
        await force(connection, self.ledger_id, self._context.config.add_timeout_s)

    async def close(self) -> LedgerMetadata:
        """Close the ledger at the last forced entry; what was added after it is lost.

        Closing again completes the same close.

        Raises:
            LedgerFencedError: a recovery came first.
            AddFailedError, UnauthorizedError: the handle has failed; recover the ledger.
            MetadataUnavailableError, MetadataOutcomeUnknownError, ContendedError: undecided; close again later.
            LedgerNotFoundError: the ledger was deleted.

        Source: docs/bookkeeper.md#close.
        """
        if self.failed is not None and not isinstance(self.failed, LedgerClosedError):
            raise self.failed.copy()
        self._closing = True
        self._stream.stop()
        try:
            self._local = await write_closed(
                self._context, self.ledger_id, self._local, self.lac, self._length
            )
        except (UnavailableError, OutcomeUnknownError):
            raise  # undecided: a recovery may still keep the adds in flight, whose callers go on waiting
        except LogStoreError as error:
            self.fail(error)
            raise
        self.fail(self._closed_error())
        return self._local.value

    def _closed_error(self) -> LedgerClosedError:
        return LedgerClosedError(f"ledger {self.ledger_id} is closed", ledger_id=self.ledger_id)

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed.copy()
        if self._closing:
            raise self._closed_error()

    # ---- the stream's policy (AddPolicy)

    def on_sent(self) -> None:
        self._context.watch(self)

    def on_done(self, entry_id: EntryId) -> None:
        self._waiters.release(entry_id)

    def on_member_failed(self, member: EnsembleMember) -> None:
        failure = AddFailedError(
            f"ledger {self.ledger_id} cannot go on without one of its bookies, and with deferred sync none can be "
            f"replaced ({member.failed}); what was forced, up to entry {self.lac}, is safe: recover the ledger",
            ledger_id=self.ledger_id,
            lac=self.lac,
        )
        failure.__cause__ = member.failed
        self.fail(failure)

    def fail(self, error: LogStoreError) -> None:
        """Stop permanently; metadata is left as it is."""
        if self.failed is not None:
            return
        self.failed = error
        self._stream.stop()
        self._context.forget(self)
        self._waiters.fail(error)

    # ---- time and registrations (OpenWriter)

    def tick(self, now: float) -> float | None:
        """Fail if a member owes an answer for too long; None if there is nothing left to check."""
        if self.failed is not None or self._closing:
            return None
        self._stream.fail_overdue(now)
        owes = self.failed is None and any(member.owes for member in self._stream.members)
        return now + self._context.config.deadline_check_s if owes else None

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""
        self._stream.extend_deadlines(pause_s)

    def on_bookies_changed(self, bookies: BookieSet) -> None:
        """No member can be replaced; one that was lost is detected when it does not answer."""
