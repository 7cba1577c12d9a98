"""The writer of one ledger: executes what the append machine decides.

    submit ──► queue ──(end of the loop iteration)──► frames ──► every member of the write set
    acks ──► AppendMachine ──► ReleaseThrough ──► waiters and listener

Entries that were submitted in one iteration of the loop leave together: one LAC in their headers, one join, and the
same bytes to every bookie. No task, timer or future is created for an entry without a waiter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any, Protocol, assert_never

from ledger.arguments import as_bytes
from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.core.append import AppendMachine
from ledger.core.commands import AppendCommand, ReleaseThrough, Resend, WriteLac
from ledger.core.metadata_changes import needs_close
from ledger.errors import (
    BookieUnavailableError,
    LedgerClosedError,
    LedgerFencedError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.metadata.update_loop import update_ledger
from ledger.model import NO_ENTRY, BookieSet, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.refusal import fenced, too_large, unauthorized
from ledger.wire.digest import make_digester, master_key
from ledger.wire.entry import Buffer
from ledger.wire.status import Status
from ledger.writing.ensemble_keeper import EnsembleKeeper
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.pending_adds import PendingAdds
from ledger.writing.waiters import Waiters


class WriteListener(Protocol):
    """Called on the loop as adds are confirmed, once for all that one read of answers confirms."""

    def on_progress(self, handle: WriteHandle, done_through: EntryId) -> None: ...

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None: ...


class WriteHandle:
    """Obtained from `LedgerClient.create`. Used on its client's loop; not thread-safe."""

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: Versioned[LedgerMetadata],
        context: ClientContext,
        *,
        visibility: Visibility,
        listener: WriteListener | None = None,
    ) -> None:
        self.ledger_id = ledger_id
        self.listener = listener
        self.failed: LogStoreError | None = None
        """Why the handle takes no more entries; None while it does."""
        self.last_add_pushed = NO_ENTRY
        self.length = 0
        """Payload bytes submitted so far."""
        self._local = metadata
        self._context = context
        self._loop = asyncio.get_running_loop()
        value = metadata.value
        self._machine = AppendMachine(value.quorum, visibility)
        self._striped = value.quorum.ensemble > value.quorum.write
        self._digester = make_digester(value.digest_type, value.password)
        self._overhead = self._digester.overhead_bytes
        self._key = master_key(value.password)
        self._queue: list[bytes] = []
        self._flush_scheduled = False
        self._sent = PendingAdds(
            ledger_id, value.quorum, self._digester, self._key, context.pool.txn_ids_of_adds()
        )
        self._released = NO_ENTRY
        self._waiters = Waiters()
        self._room_waiters: list[asyncio.Future[None]] = []
        self._closing = False
        self._metadata_lock = asyncio.Lock()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._keeper = EnsembleKeeper(self, context)
        self._members = [
            EnsembleMember(self, position, bookie_id, context.config.add_timeout_s)
            for position, bookie_id in enumerate(value.last_fragment.ensemble)
        ]
        for member in self._members:
            self._connect(member)

    # ---- facts

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this handle last wrote or read it."""
        return self._local.value

    @property
    def lac(self) -> EntryId:
        """Last add confirmed: it and every entry before it are durable on their ack quorum."""
        return self._machine.lac

    @property
    def visible(self) -> EntryId:
        """Every reader opened from now on sees the entries up to this one."""
        return self._machine.visible

    @property
    def done_through(self) -> EntryId:
        """Last add that is done, in the sense of the handle's visibility (docs/log-semantics.md#rule-13)."""
        return self._machine.done_through

    @property
    def in_flight_bytes(self) -> int:
        """Payload bytes submitted and not confirmed."""
        return self.length - self._sent.confirmed_length

    @property
    def failed_members(self) -> int:
        """Number of members of the ensemble that have failed and are not replaced yet."""
        return len(self._machine.failed_positions)

    def troubles(self) -> list[str]:
        """A sentence for each member that failed or has not responded for a second or more."""
        now = self._loop.time()
        return [trouble for member in self._members if (trouble := member.trouble(now)) is not None]

    # ---- adding

    def submit(self, payload: Buffer) -> EntryId:
        """Take the next entry id; the entry is sent at the end of this iteration of the loop. Never waits.

        The order of calls is the order of ids and of acknowledgements.

        Raises:
            EntryTooLargeError: the entry exceeds `entry_bytes_max`; nothing happened.
            LedgerClosedError, LedgerFencedError, AddFailedError, UnauthorizedError: the handle is closed or has
                failed.
        """
        if self.failed is not None or self._closing:
            raise (
                self.failed.copy()
                if self.failed is not None
                else LedgerClosedError(
                    f"ledger {self.ledger_id} is closed for adds", ledger_id=self.ledger_id
                )
            )
        data = payload if type(payload) is bytes else as_bytes(payload)
        if len(data) + self._overhead > self._context.config.entry_bytes_max:
            raise too_large(len(data), self._overhead, self._context.config.entry_bytes_max)
        self._queue.append(data)
        self.length += len(data)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        self.last_add_pushed = EntryId(self.last_add_pushed + 1)
        return self.last_add_pushed

    async def add(self, payload: Buffer) -> EntryId:
        """Submit and wait until the add is done: durable on the ack quorum and, if strict, visible.

        A cancelled call leaves the entry in its place; it may still be stored (docs/bookkeeper.md#adds). Raises as
        `submit` and `wait`.
        """
        entry_id = self.submit(payload)
        await self.wait(entry_id)
        return entry_id

    async def wait(self, entry_id: int) -> None:
        """Return once the add of `entry_id` is done.

        Raises:
            LedgerFencedError, AddFailedError, UnauthorizedError: the handle failed; the entry may be stored.
            LedgerClosedError: the ledger was closed below the entry, which is certainly absent.
        """
        if self._machine.done_through >= entry_id:
            return
        if self.failed is not None:
            raise self.failed.copy()
        await self._waiters.add(entry_id)

    async def drain(self) -> None:
        """Return once everything submitted so far is done. Raises as `wait`."""
        await self.wait(self.last_add_pushed)

    async def wait_for_room(self, in_flight_bytes_max: int) -> None:
        """Return once fewer bytes than this are in flight, or the handle has failed."""
        while self.failed is None and self.in_flight_bytes >= in_flight_bytes_max:
            future: asyncio.Future[None] = self._loop.create_future()
            self._room_waiters.append(future)
            await future

    def unconfirmed(self) -> list[tuple[EntryId, bytes]]:
        """Entries above the LAC with their payloads, in order: undecided if the handle has failed."""
        payloads = self._sent.payloads + self._queue
        return [(EntryId(entry_id), payload) for entry_id, payload in enumerate(payloads, self._sent.first)]

    # ---- sending

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self.failed is not None or self._closing or not self._queue:
            return
        queue, self._queue = self._queue, []
        first, lac = self._machine.sent_through + 1, self._machine.lac
        pieces = self._sent.encode(queue, lac)
        self._machine.on_sent(first + len(queue) - 1, lac)
        if self._striped:
            for member, batch in zip(self._members, self._sent.by_position(first, len(queue)), strict=True):
                if batch:
                    member.send_adds(b"".join(batch), len(batch) // 2)
        else:
            frames = b"".join(pieces)
            for member in self._members:
                member.send_adds(frames, len(queue))
        self._context.watch(self)

    def _resend(self, position: int) -> None:
        """Send everything unconfirmed, with its original bytes, to one member."""
        pieces = self._sent.for_position(position)
        if pieces:
            self._members[position].send_adds(b"".join(pieces), len(pieces) // 2)
            self._context.watch(self)

    def _connect(self, member: EnsembleMember) -> None:
        connection = self._context.pool.entries_now(member.bookie_id)
        if connection is not None:
            member.attach(self.ledger_id, connection)
        else:
            self.start(self._connect_later(member))

    async def _connect_later(self, member: EnsembleMember) -> None:
        try:
            connection = await self._context.pool.entries(member.bookie_id)
        except BookieUnavailableError as error:
            self.on_member_lost(member, error)
            return
        if self._members[member.position] is member and member.failed is None and self.failed is None:
            member.attach(self.ledger_id, connection)
            self._resend(member.position)

    # ---- answers (EnsembleMemberOwner)

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None:
        if status is Status.EFENCED:
            # Terminal: a writer that went on with another bookie could be acknowledged unnoticed by the recovery
            # (docs/pitfalls.md#fenced-bookie-replaced).
            self.fail(fenced(self.ledger_id))
        elif status is Status.EUA:
            self.fail(unauthorized(member.bookie_id, self.ledger_id))
        else:
            self.on_member_lost(
                member,
                BookieUnavailableError(
                    f"bookie {member.bookie_id} answered {status.name} to entry {entry_id} "
                    f"of ledger {self.ledger_id}",
                    bookie_id=member.bookie_id,
                ),
            )

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None:
        """Stop counting the member and search a replacement."""
        if self._members[member.position] is not member or member.failed or self.failed or self._closing:
            return
        member.failed = error
        member.owed_adds = member.owed_lacs = 0
        member.detach(self.ledger_id)
        self.carry_out(self._machine.on_bookie_failed(member.position))
        self._keeper.on_member_lost(member)

    # ---- commands

    def carry_out(self, commands: list[AppendCommand]) -> None:
        for command in commands:
            match command:
                case ReleaseThrough(entry_id):
                    self._pop_confirmed()
                    self._release(entry_id)
                case WriteLac(position, lac):
                    self._write_lac(self._members[position], lac)
                case Resend(position):
                    self._resend(position)
                case _:
                    assert_never(command)
        self._pop_confirmed()

    def _pop_confirmed(self) -> None:
        if self._sent.confirm(self._machine.lac):
            self._wake_room_waiters()

    def _release(self, entry_id: EntryId) -> None:
        if entry_id <= self._released:
            return  # a connection that broke during a resend has released more already
        self._released = entry_id
        self._waiters.release(entry_id)
        if self.listener is not None:
            self.listener.on_progress(self, entry_id)

    def _write_lac(self, member: EnsembleMember, lac: EntryId) -> None:
        connection = self._context.pool.v3_now(member.bookie_id)
        if connection is None:
            self.start(self._write_lac_later(member, lac))
            return
        packet = self._digester.lac_packet(self.ledger_id, lac)
        member.sent_lac()
        done = partial(self._lac_written, member, lac)
        connection.write_lac(self.ledger_id, lac, self._key, packet, done, member.add_timeout_s)
        self._context.watch(self)

    async def _write_lac_later(self, member: EnsembleMember, lac: EntryId) -> None:
        try:
            await self._context.pool.v3(member.bookie_id)
        except BookieUnavailableError as error:
            self.on_member_lost(member, error)
            return
        if self._members[member.position] is member and self.failed is None:
            self._write_lac(member, lac)

    def _lac_written(self, member: EnsembleMember, lac: EntryId, outcome: Status | Exception) -> None:
        if self._members[member.position] is not member or member.failed or self.failed:
            return
        member.lac_answered()
        if isinstance(outcome, Exception):
            self.on_member_lost(member, outcome)
        elif outcome is Status.EOK:
            self.carry_out(self._machine.on_lac_stored(member.position, lac))
        else:
            self.on_add_refused(member, lac, outcome)

    # ---- time and registrations

    def tick(self, now: float) -> bool:
        """Fail members that owe an answer for too long; False if there is nothing left to check."""
        if self.failed is not None or self._closing:
            return False
        for member in self._members:
            member.recount()
            if member.failed is None and member.overdue(now):
                self.on_member_lost(member, member.overdue_error())
        self._fail_missing(now)
        self.carry_out(self._machine.publish_lac(even_if_busy=True))
        return (
            self._machine.visible < self.last_add_pushed
            or any(member.owes and member.failed is None for member in self._members)
            or any(member.missing_since is not None for member in self._members)
        )

    def excuse(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""
        for member in self._members:
            member.excuse(pause_s)

    def on_bookies_changed(self, bookies: BookieSet) -> None:
        """Replace a member that is no longer registered, even if idle (docs/log-semantics.md#rule-24b)."""
        now = self._loop.time()
        for member in self._members:
            if bookies.find(member.bookie_id) is not None:
                member.missing_since = None
            elif member.missing_since is None:
                member.missing_since = now
                self._context.watch(self)
        self._keeper.wake()

    def _fail_missing(self, now: float) -> None:
        deadline = now - self._context.config.lost_member_s
        for member in self._members:
            if member.missing_since is None or member.missing_since > deadline or member.failed is not None:
                continue
            if not self._has_spare():
                return  # it may still answer, and a member that answers is better than none
            member.missing_since = None
            self.on_member_lost(
                member,
                BookieUnavailableError(
                    f"bookie {member.bookie_id} is not registered any more", bookie_id=member.bookie_id
                ),
            )

    def _has_spare(self) -> bool:
        ensemble = self.metadata.last_fragment.ensemble
        return any(info.bookie_id not in ensemble for info in self._context.bookies().writable)

    # ---- the ensemble keeper's side

    @property
    def machine(self) -> AppendMachine:
        return self._machine

    @property
    def members(self) -> list[EnsembleMember]:
        return self._members

    @property
    def local(self) -> Versioned[LedgerMetadata]:
        return self._local

    @property
    def metadata_lock(self) -> asyncio.Lock:
        """Held over every compare-and-set of this handle, so that they never race one another."""
        return self._metadata_lock

    def finished(self) -> bool:
        return self.failed is not None or self._closing

    def install(self, metadata: Versioned[LedgerMetadata]) -> list[int]:
        """Adopt newer metadata; return the positions that have a new bookie, with fresh members."""
        self._local = metadata
        changed = []
        for position, bookie_id in enumerate(metadata.value.last_fragment.ensemble):
            old = self._members[position]
            if old.bookie_id != bookie_id:
                old.detach(self.ledger_id)
                self._members[position] = EnsembleMember(self, position, bookie_id, old.add_timeout_s)
                changed.append(position)
        return changed

    def rejoin(self, member: EnsembleMember) -> None:
        """The failed member's bookie is reachable again: use it at its old position."""
        fresh = EnsembleMember(self, member.position, member.bookie_id, member.add_timeout_s)
        self._members[member.position] = fresh
        self._connect(fresh)
        self.carry_out(self._machine.on_bookie_returned(member.position))

    def connect_positions(self, positions: Iterable[int]) -> None:
        for position in positions:
            self._connect(self._members[position])

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a short task of this handle; it is cancelled when the handle ends."""
        task: asyncio.Task[None] = self._loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    # ---- the end

    def fail(self, error: LogStoreError) -> None:
        """Stop permanently: nothing more is sent or acknowledged, metadata is left as it is."""
        if self.failed is not None:
            return
        self.failed = error
        self._stop()
        self._context.forget(self)
        self._fail_waiters(error)
        if self.listener is not None:
            self.listener.on_failure(self, error)

    def abandon(self, error: LogStoreError) -> list[tuple[EntryId, bytes]]:
        """Fail without calling the listener; return what is unconfirmed."""
        self.listener = None
        self.fail(error)
        return self.unconfirmed()

    async def close(self) -> LedgerMetadata:
        """Close the ledger at the LAC. On return metadata says CLOSED and entries above are proved absent.

        Does not wait for adds in flight: `drain` first. Closing again completes the same close
        (docs/bookkeeper.md#close).

        Raises:
            LedgerFencedError: a recovery came first.
            MetadataUnavailableError, MetadataOutcomeUnknownError, ContendedError: undecided; close again later.
            LedgerNotFoundError: the ledger was deleted.
        """
        if isinstance(self.failed, LedgerFencedError):
            raise self.failed.copy()
        self._closing = True  # no answer counts from here on: docs/pitfalls.md#close-below-an-ack
        self._stop()
        async with self._metadata_lock:
            last_entry, length = self._machine.lac, self._sent.confirmed_length
            try:
                self._local = await update_ledger(
                    self._context.store,
                    self.ledger_id,
                    self._local,
                    lambda found: needs_close(self.ledger_id, found, last_entry, length),
                    lambda found: found.closed_at(last_entry, length),
                    self._context.environment,
                )
            except (UnavailableError, OutcomeUnknownError):
                raise  # undecided; callers that wait for adds go on waiting until it is decided
            except LogStoreError as error:
                self.fail(error)
                raise
        if self.failed is None:
            self.failed = LedgerClosedError(f"ledger {self.ledger_id} is closed", ledger_id=self.ledger_id)
            self._context.forget(self)
            # A ledger closed at the LAC shows every entry up to it; those above it are proved absent.
            self._machine.on_closed()
            self._release(last_entry)
            self._fail_waiters(self.failed)
        return self._local.value

    def _stop(self) -> None:
        self._keeper.stop()
        for member in self._members:
            member.detach(self.ledger_id)
        for task in list(self._tasks):
            task.cancel()

    def _fail_waiters(self, error: LogStoreError) -> None:
        self._waiters.fail(error)
        self._wake_room_waiters()

    def _wake_room_waiters(self) -> None:
        waiters, self._room_waiters = self._room_waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)
