"""The usual writer of one ledger: entries are durable, and if strict visible, when their adds are done.

    submit ──► queue ──(end of the loop iteration)──► AddStream

The policy of its stream: headers carry the machine's LAC; a failed member is replaced in metadata, or taken back
(`EnsembleKeeper`); a strict writer also stores explicit LACs (`LacWriter`). A recovery, or too few bookies for too
long, ends it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ledger.arguments import as_bytes
from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.core.distribution import holds
from ledger.errors import (
    ConfigurationError,
    LedgerClosedError,
    LedgerFencedError,
    LogStoreError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.model import NO_ENTRY, BookieSet, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.refusal import too_large
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.entry import Buffer
from ledger.writing.add_stream import AddPolicy, AddStream
from ledger.writing.closing import write_closed
from ledger.writing.ensemble_keeper import EnsembleKeeper
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.lac_writer import LacWriter
from ledger.writing.pending_adds import AddKind
from ledger.writing.waiters import Waiters


class WriteListener(Protocol):
    """Called on the loop as adds are confirmed, once for all that one read of answers confirms."""

    def on_progress(self, handle: WriteHandle, done_through: EntryId) -> None: ...

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None: ...


class WriteHandle(AddPolicy):
    """Obtained from `LedgerClient.create`. Used on its client's loop; not thread-safe."""

    __slots__ = (
        "_capacity_waiters",
        "_check_at",
        "_closing",
        "_context",
        "_deadline_check_s",
        "_fast",
        "_flush_scheduled",
        "_is_watched",
        "_keeper",
        "_lac_at_tick",
        "_lac_writer",
        "_loop",
        "_machine",
        "_overhead",
        "_payload_bytes_max",
        "_queue",
        "_released",
        "_stream",
        "_waiters",
        "failed",
        "last_add_pushed",
        "ledger_id",
        "length",
        "listener",
        "local",
        "metadata_lock",
    )

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
        self.local = metadata
        """Metadata as this handle last read or wrote it, with its version; its ensemble keeper writes it, too."""
        self.metadata_lock = asyncio.Lock()
        """Held over every compare-and-set of this handle, so that they never race one another."""
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue: list[bytes] = []
        self._flush_scheduled = False
        self._released = NO_ENTRY
        self._waiters = Waiters()
        self._capacity_waiters: list[asyncio.Future[None]] = []
        self._closing = False
        self._fast = visibility is Visibility.FAST
        self._stream = AddStream(
            ledger_id,
            metadata.value,
            self,
            context.pool.entry_connections,
            kind=AddKind.NORMAL,
            visibility=visibility,
            txn_ids=context.pool.txn_ids_of_adds(),
            add_timeout_s=context.config.add_timeout_s,
        )
        self._machine = self._stream.machine
        self._is_watched = False
        """Whether the client will call `tick`."""
        self._lac_at_tick = NO_ENTRY
        self._deadline_check_s = context.config.deadline_check_s
        self._check_at = 0.0
        """When the members' deadlines are to be checked, in loop time; a fast writer ticks more often, for its LAC."""
        self._overhead = self._stream.pending.digester.overhead_bytes
        self._payload_bytes_max = context.config.entry_bytes_max - self._overhead
        self._keeper = EnsembleKeeper(self, self._stream, context)
        self._lac_writer = LacWriter(self, self._stream, context)
        for member in self._stream.members:
            self._stream.connect(member)

    # ---- facts

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this handle last wrote or read it."""
        return self.local.value

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
        return self.length - self._stream.pending.confirmed_length

    @property
    def failed_members(self) -> int:
        """Number of members of the ensemble that have failed and are not replaced yet."""
        return len(self._machine.failed_positions)

    def troubles(self) -> list[str]:
        """A sentence for each member that failed or has not responded for a second or more."""
        now = self._loop.time()
        return [trouble for member in self._stream.members if (trouble := member.trouble(now)) is not None]

    # ---- adding

    def submit(self, payload: Buffer, *, flushes: bool = False) -> EntryId:
        """Take the next entry id; the entry is sent at the end of this iteration of the loop. Never waits.

        `flushes`: the caller calls `flush` in this iteration, so that it need not be scheduled.
        The order of calls is the order of ids and of acknowledgements.

        Raises:
            EntryTooLargeError: the entry exceeds `entry_bytes_max`; nothing happened.
            LedgerClosedError, LedgerFencedError, AddFailedError, UnauthorizedError: the handle is closed or has
                failed.
        """
        if self.failed is not None or self._closing:
            raise self._refusal()
        data = payload if type(payload) is bytes else as_bytes(payload)
        size = len(data)
        if size > self._payload_bytes_max:
            raise too_large(size, self._overhead, self._context.config.entry_bytes_max)
        self._queue.append(data)
        self.length += size
        entry_id = self.last_add_pushed = EntryId(self.last_add_pushed + 1)
        if not (flushes or self._flush_scheduled):
            self._flush_scheduled = True
            self._loop.call_soon(self._on_turn_end)
        return entry_id

    def _refusal(self) -> LogStoreError:
        if self.failed is not None:
            return self.failed.copy()
        return LedgerClosedError(f"ledger {self.ledger_id} is closed for adds", ledger_id=self.ledger_id)

    def _on_turn_end(self) -> None:
        self._flush_scheduled = False
        self.flush()

    def flush(self) -> None:
        """Send what was submitted in this iteration of the loop."""
        if self._queue and self.failed is None and not self._closing:
            queue, self._queue = self._queue, []
            self._stream.send(queue, self._machine.lac)

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

    async def wait_for_capacity(self, in_flight_bytes_max: int) -> None:
        """Return once fewer bytes than this are in flight, or the handle has failed.

        Raises:
            ConfigurationError: `in_flight_bytes_max` is below 1, and there are never fewer bytes than none.
        """
        if in_flight_bytes_max < 1:
            raise ConfigurationError(f"in_flight_bytes_max must be at least 1, got {in_flight_bytes_max}")
        while self.failed is None and self.in_flight_bytes >= in_flight_bytes_max:
            future: asyncio.Future[None] = self._loop.create_future()
            self._capacity_waiters.append(future)
            await future

    def unconfirmed(self) -> list[tuple[EntryId, bytes]]:
        """Entries above the LAC with their payloads, in order: undecided if the handle has failed."""
        pending = self._stream.pending
        payloads = pending.payloads + self._queue
        return [(EntryId(entry_id), payload) for entry_id, payload in enumerate(payloads, pending.first)]

    # ---- the stream's policy (AddPolicy)

    def on_sent(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._context.watch(self)

    def on_confirmed(self) -> None:
        if not self._capacity_waiters:
            return
        waiters, self._capacity_waiters = self._capacity_waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def on_done(self, entry_id: EntryId) -> None:
        if entry_id <= self._released:
            return  # a connection that broke during a resend has released more already
        self._released = entry_id
        if self._waiters.waiting:
            self._waiters.release(entry_id)
        if self.listener is not None:
            self.listener.on_progress(self, entry_id)

    def on_member_failed(self, member: EnsembleMember) -> None:
        self._keeper.on_member_failed(member)

    def on_entries_missed(self, member: EnsembleMember) -> None:
        self._context.report_missed(self.ledger_id, member.bookie_id)

    def on_copies_late(self, connection: EntryConnection, last: EntryId) -> None:
        self._context.follow_late(self.ledger_id, connection, last)

    def write_lac(self, members: list[EnsembleMember], lac: EntryId) -> None:
        self._lac_writer.write(members, lac)

    # ---- time and registrations (OpenWriter)

    def tick(self, now: float) -> float | None:
        """Check deadlines; when to check again, in loop time, or None if there is nothing left to check."""
        again_at = self._tick(now)
        self._is_watched = again_at is not None
        return again_at

    def _tick(self, now: float) -> float | None:
        """Fail members that owe an answer for too long.

        While the metadata store keeps a fast writer from closing its ledger, this stores the LAC, without which no
        reader sees the last entries (docs/log-semantics.md#rule-13).
        """
        if self.failed is not None:
            return None
        machine, config = self._machine, self._context.config
        if self._closing:
            if self._fast:
                self._stream.execute(machine.publish_lac(even_if_busy=True))
            return now + config.lac_interval_s if self._fast and machine.visible < machine.lac else None
        if machine.visible == machine.lac == self.last_add_pushed and not self._stream.awaits_members:
            self._lac_at_tick = machine.lac
            return None  # idle: of many logs with an append now and then, most are
        if now >= self._check_at:
            self._check_at = now + self._deadline_check_s
            self._stream.fail_overdue(now)
            self._keeper.fail_unregistered(now)
        if machine.visible < machine.lac:
            # Confirmed at the last tick and not visible yet: it waits for entries that hang, or for a slow member.
            overdue = machine.visible < self._lac_at_tick
            self._stream.execute(machine.publish_lac(even_if_busy=overdue))
        self._lac_at_tick = machine.lac
        waits = machine.lac < self.last_add_pushed
        if machine.visible < machine.lac or (self._fast and waits):
            return now + config.lac_interval_s
        if waits or self._stream.awaits_members:
            return self._check_at
        return None

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""
        self._stream.extend_deadlines(pause_s)
        self._keeper.extend_deadlines(pause_s)

    def on_bookies_changed(self, bookies: BookieSet) -> None:
        """Replace a member that is no longer registered, even if idle (docs/log-semantics.md#rule-24b)."""
        if self._keeper.on_bookies_changed(bookies):
            self._context.watch(self)

    # ---- the end

    def finished(self) -> bool:
        """Whether the handle has failed, or its close has begun."""
        return self.failed is not None or self._closing

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
        self._context.watch(self)
        async with self.metadata_lock:
            last_entry, length = self._machine.lac, self._stream.pending.confirmed_length
            try:
                self.local = await write_closed(self._context, self.ledger_id, self.local, last_entry, length)
            except (UnavailableError, OutcomeUnknownError):
                raise  # undecided; callers that wait for adds go on waiting until it is decided
            except LogStoreError as error:
                self.fail(error)
                raise
        if self.failed is None:
            self.failed = LedgerClosedError(f"ledger {self.ledger_id} is closed", ledger_id=self.ledger_id)
            self._stop()
            self._context.forget(self)
            # A ledger closed at the LAC shows every entry up to it; those above it are proved absent.
            self._machine.on_closed()
            self._report_strangers()
            self.on_done(last_entry)
            self._fail_waiters(self.failed)
        return self.local.value

    def _report_strangers(self) -> None:
        """Members of a change of ours that is stored, which we did not know: they were sent nothing."""
        last_fragment, quorum = self.metadata.last_fragment, self.metadata.quorum
        for member, bookie_id in zip(self._stream.members, last_fragment.ensemble, strict=True):
            if member.bookie_id != bookie_id and any(
                holds(member.position, entry_id, quorum)
                for entry_id in range(last_fragment.first_entry, self.metadata.last_entry + 1)
            ):
                self._context.report_missed(self.ledger_id, bookie_id)

    def _stop(self) -> None:
        self._keeper.stop()
        self._stream.stop(counts_lacs=self.failed is None)  # of a fast writer, while it closes

    def _fail_waiters(self, error: LogStoreError) -> None:
        self._waiters.fail(error)
        self.on_confirmed()
