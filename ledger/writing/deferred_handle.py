"""The writer of a ledger whose entries are synced only on request (docs/bookkeeper.md#deferred-sync).

    add    ──► adds with writeFlags 1, version 3 ──► stored on an ack quorum, perhaps in memory only
    force  ──► FORCE_LEDGER to every member ──► all have answered: confirmed

Invariant: only a force confirms. Every member syncs what it has when the force comes, so an entry that was on its ack
quorum by then is durable there. The ensemble never changes: a new member would lack entries that no client has kept.
"""

from __future__ import annotations

import asyncio
from collections import deque

from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.core.append import AppendMachine
from ledger.core.commands import AppendCommand, ReleaseThrough
from ledger.core.distribution import write_set
from ledger.core.metadata_changes import needs_close
from ledger.errors import (
    AddFailedError,
    BookieUnavailableError,
    LedgerClosedError,
    LogStoreError,
)
from ledger.metadata.update_loop import update_ledger
from ledger.model import NO_ENTRY, BookieSet, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.refusal import fenced, too_large, unauthorized
from ledger.transport.v3_connection import V3Connection
from ledger.wire import v3
from ledger.wire.digest import make_digester, master_key
from ledger.wire.entry import Buffer
from ledger.wire.messages import ForceLedgerRequest, Operation, V3AddRequest, V3Request, WriteFlag
from ledger.wire.status import Status
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.waiters import Waiters


class DeferredWriteHandle:
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
        self._local = metadata
        self._context = context
        value = metadata.value
        self._digester = make_digester(value.digest_type, value.password)
        self._key = master_key(value.password)
        # Its "confirmed" is what is stored on ack quorums here.
        self.machine = AppendMachine(value.quorum, Visibility.FAST)
        self._members = [
            EnsembleMember(self, position, bookie_id, context.config.add_timeout_s)
            for position, bookie_id in enumerate(value.last_fragment.ensemble)
        ]
        self._connections: list[V3Connection] = []
        self._connecting = asyncio.Lock()
        self._lengths: deque[int] = deque()
        """The ledger's length with each entry above the LAC."""
        self._length = self._confirmed_length = 0
        self._waiters = Waiters()

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this handle last wrote or read it."""
        return self._local.value

    async def add(self, payload: Buffer) -> EntryId:
        """Add an entry and return its id once it is on its ack quorum; it may be lost until the next `force`.

        Raises:
            EntryTooLargeError: the entry exceeds `entry_bytes_max`; nothing happened.
            LedgerFencedError: another client recovers the ledger.
            AddFailedError: a bookie failed; entries up to `error.lac` are durable.
            LedgerClosedError: the handle is closed.
            UnauthorizedError: a bookie refused the password.
        """
        overhead, limit = self._digester.overhead_bytes, self._context.config.entry_bytes_max
        if len(payload) + overhead > limit:
            raise too_large(len(payload), overhead, limit)
        await self._connect()
        entry_id = EntryId(self.machine.sent_through + 1)
        frame = self._frame(entry_id, payload)
        self.machine.on_sent(entry_id, self.lac)
        for position in write_set(entry_id, self.metadata.quorum):
            self._members[position].send_adds(frame, 1)
        self._context.watch(self)
        self._check()
        if self.machine.lac < entry_id:
            await self._waiters.add(entry_id)
        return entry_id

    def _frame(self, entry_id: EntryId, payload: Buffer) -> bytes:
        self._length += len(payload)
        self._lengths.append(self._length)
        head = self._digester.header_and_digest(self.ledger_id, entry_id, self.lac, self._length, (payload,))
        body = V3AddRequest(
            ledger_id=self.ledger_id,
            entry_id=entry_id,
            master_key=self._key,
            entry=b"".join((head, payload)),
            write_flags=WriteFlag.DEFERRED_SYNC,
        )
        txn_id = self._connections[0].next_txn_id()
        return v3.encode_request(V3Request(txn_id=txn_id, operation=Operation.ADD_ENTRY, body=body))

    async def force(self) -> EntryId:
        """Make every entry whose add has returned durable on its ack quorum; return the id of the last one.

        Raises:
            BookieUnavailableError: a member did not answer, or with an error; nothing is confirmed by this call.
            The error by which the handle failed, as in `add`.
        """
        self._check()
        stored = self.machine.lac
        if stored == self.lac:
            return self.lac
        timeout_s = self._context.config.add_timeout_s
        await asyncio.gather(*(self._force(connection, timeout_s) for connection in self._connections))
        self._check()  # the LAC at which a close has begun stays
        while self.lac < stored:
            self._confirmed_length = self._lengths.popleft()
            self.lac = EntryId(self.lac + 1)
        return self.lac

    async def _force(self, connection: V3Connection, timeout_s: float) -> None:
        body = ForceLedgerRequest(ledger_id=self.ledger_id)
        try:
            async with asyncio.timeout(timeout_s):
                response = await connection.request(Operation.FORCE_LEDGER, body, timeout_s)
        except TimeoutError as error:
            raise BookieUnavailableError(
                f"bookie {connection.bookie_id} did not answer a force within {timeout_s} s",
                bookie_id=connection.bookie_id,
            ) from error
        if response.outcome is not Status.EOK:
            raise BookieUnavailableError(
                f"bookie {connection.bookie_id} answered {response.outcome.name} to a force of ledger "
                f"{self.ledger_id}",
                bookie_id=connection.bookie_id,
            )

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
        last_entry, length = self.lac, self._confirmed_length
        self.fail(LedgerClosedError(f"ledger {self.ledger_id} is closed", ledger_id=self.ledger_id))
        self._local = await update_ledger(
            self._context.store,
            self.ledger_id,
            self._local,
            lambda found: needs_close(self.ledger_id, found, last_entry, length),
            lambda found: found.closed_at(last_entry, length),
            self._context.environment,
        )
        return self._local.value

    # ---- connections and answers (EnsembleMemberOwner)

    async def _connect(self) -> None:
        self._check()
        async with self._connecting:
            if self._connections:
                return
            pool = self._context.pool
            try:
                found = await asyncio.gather(*(pool.v3(member.bookie_id) for member in self._members))
            except BookieUnavailableError as error:
                self._lost(error)
                self._check()
            self._connections = found
            for member, connection in zip(self._members, found, strict=True):
                member.attach(self.ledger_id, connection)

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None:
        if status is Status.EFENCED:
            self.fail(fenced(self.ledger_id))
        elif status is Status.EUA:
            self.fail(unauthorized(member.bookie_id, self.ledger_id))
        else:
            text = f"bookie {member.bookie_id} answered {status.name} to entry {entry_id}"
            self._lost(BookieUnavailableError(text, bookie_id=member.bookie_id))

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None:
        self._lost(error)

    def carry_out(self, commands: list[AppendCommand]) -> None:
        for command in commands:
            assert isinstance(command, ReleaseThrough), "no member is replaced and no LAC is published"
            self._waiters.release(command.entry_id)

    def _lost(self, error: Exception) -> None:
        failure = AddFailedError(
            f"ledger {self.ledger_id} cannot go on without one of its bookies, and with deferred sync none can be "
            f"replaced ({error}); what was forced, up to entry {self.lac}, is safe: recover the ledger",
            ledger_id=self.ledger_id,
            lac=self.lac,
        )
        failure.__cause__ = error
        self.fail(failure)

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed.copy()

    # ---- the client's side (OpenWriter)

    def tick(self, now: float) -> bool:
        """Fail if a member owes an answer for too long; False if there is nothing left to check."""
        for member in self._members:
            if self.failed is None and member.overdue(now):
                self._lost(member.overdue_error())
        return self.failed is None and any(member.owes for member in self._members)

    def excuse(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""
        for member in self._members:
            member.excuse(pause_s)

    def on_bookies_changed(self, bookies: BookieSet) -> None:
        """No member can be replaced; one that was lost is detected when it does not answer."""

    def fail(self, error: LogStoreError) -> None:
        """Stop permanently; metadata is left as it is."""
        if self.failed is not None:
            return
        self.failed = error
        for member in self._members:
            member.detach(self.ledger_id)
        self._context.forget(self)
        self._waiters.fail(error)
