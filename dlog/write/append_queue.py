"""From the caller to the active ledger: batching, order, backpressure.

    append_many ─┐
    submit ──► batcher ──► held ──► active_ledger (one ledger) ──► acks, by the run
                                 └─ while a barrier is up, or no ledger can be written, entries wait here

Invariant (docs/log-semantics.md#rule-6, #rule-7, #rule-8, #rule-11): the order of calls is the order of ids. What was
not yet submitted to a ledger is certainly absent if it fails or is cancelled. There is no task per message, and one
timer only, for the partial batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dlog.config import LogConfig
from dlog.core.batching import ENTRY_BYTES_MIN, Batch, Batcher, BatchLimits, Headers
from dlog.errors import MessageTooLargeError, QueueFullError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES
from dlog.format.message import NO_HEADERS, Buffer, as_bin, flat_headers, header_pairs
from dlog.format.producer_snapshot import PRODUCER_BYTES, PRODUCERS_MAX, LastMessage
from dlog.model import Appended, MessageId, MessageIds
from dlog.write.active_ledger import ActiveLedger
from dlog.write.append_deadline import AppendDeadline
from dlog.write.byte_budget import ByteBudget, SharedByteBudget
from dlog.write.pending_entry import PendingEntry, Waiter
from dlog.write.producer_entry import ProducerEntry
from dlog.write.producer_registry import ProducerRegistry
from dlog.write.turn_end import TurnEnd
from ledger.buggify import buggify
from ledger.environment import Environment
from ledger.errors import LogStoreError

_MESSAGE_OVERHEAD_BYTES = 16
_FAILED_MIN = 32


class AppendQueue:
    """Everything a writer has accepted that has no outcome yet."""

    __slots__ = (
        "_active_ledger",
        "_batcher",
        "_budget",
        "_codec",
        "_dispatched",
        "_entries_in_flight",
        "_environment",
        "_epoch",
        "_failed",
        "_failed_max",
        "_flush_scheduled",
        "_flushes",
        "_held",
        "_last_append_us",
        "_loop",
        "_shared_budget",
        "_tail",
        "_timer",
        "_turn_end",
        "_unsettled",
        "buffer_bytes_max",
        "deadline",
        "limits",
        "producers",
        "refusal",
    )

    def __init__(
        self,
        config: LogConfig,
        environment: Environment,
        turn_end: TurnEnd,
        shared_budget: SharedByteBudget,
        *,
        epoch: int,
        log: str = "",
        last_append_us: int = 0,
        producers: Mapping[bytes, LastMessage] | None = MappingProxyType({}),
    ) -> None:
        """`producers`: their last messages when the log was taken over, as of ProducerRegistry.

        Raises:
            ConfigurationError: `config.ledger.entry_bytes_max` leaves no capacity for a snapshot of them.
        """
        ledger_bytes_max = config.ledger.entry_bytes_max
        self.limits = _limits_beside(config.batching, producers, ledger_bytes_max)
        self.producers = ProducerRegistry(
            log,
            producers,
            entry_bytes_max=self.limits.entry_bytes_max,
            ledger_bytes_max=ledger_bytes_max,
        )
        if buggify("writer.no-batching"):
            self.limits = replace(self.limits, batch_bytes=1, linger_s=0.0)
        self._codec = config.codec
        self._environment = environment
        self._turn_end = turn_end
        self._epoch = epoch
        self._last_append_us = last_append_us
        self._loop = asyncio.get_running_loop()
        self._batcher: Batcher[Waiter] = Batcher(self.limits)
        self._budget = ByteBudget(
            config.buffer_bytes_max,
            shared_budget,
            bytes_min=min(self.limits.batch_bytes, self.limits.entry_bytes_max),
        )
        self.buffer_bytes_max = config.buffer_bytes_max
        self._shared_budget = shared_budget
        self._held: deque[PendingEntry] = deque()
        self._active_ledger: ActiveLedger | None = None
        self._entries_in_flight = 0
        self._unsettled: deque[PendingEntry] = deque()
        """Everything dispatched, in order, from the first entry without an outcome on."""
        self._dispatched = 0
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Futures to complete once this number of entries has an outcome."""
        self._failed: list[Waiter] = []
        self._failed_max = _FAILED_MIN
        """With more of them, those that were read in the meantime are dropped."""
        self._flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self.refusal: LogStoreError | None = None
        """Why no new append is accepted; None while they are."""
        self._tail: tuple[int, int, int] | None = None
        self.deadline: AppendDeadline | None = None
        """Started whenever an entry is accepted."""

    # ---- facts

    @property
    def holding(self) -> bool:
        """Whether entries or messages wait that were not submitted to a ledger."""
        return bool(self._held) or self._batcher.open_count > 0

    @property
    def in_flight(self) -> int:
        """Number of entries submitted to a ledger and not yet acknowledged."""
        return self._entries_in_flight

    def oldest_at(self) -> float | None:
        """When the oldest entry without an outcome was accepted, in loop time; None without any."""
        return self._unsettled[0].accepted_at if self._unsettled else None

    @property
    def active_ledger(self) -> ActiveLedger | None:
        return self._active_ledger

    @property
    def tail(self) -> MessageId | None:
        """The last message that this writer submitted to a ledger; None before the first."""
        return None if self._tail is None else MessageId(*self._tail)

    @property
    def buffered_bytes(self) -> int:
        return self._budget.used + self._batcher.open_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that callers may collect now, to append them later: see `ByteBudget.free`."""
        return self._budget.free(self._batcher.open_bytes)

    # ---- appending

    async def submit(self, payload: Buffer | None, key: Buffer | None, headers: Headers) -> Waiter:
        """Accept one message, waiting for buffer space first; the future gets its id."""
        if self._budget.tight:
            self._check_open()
            # What is refused does not wait first; and what waits is as it was when the caller passed it.
            payload, key = as_bin(payload, "a payload"), as_bin(key, "a key")
            if headers:
                headers = header_pairs(flat_headers(headers))
            size = _size(payload, key)
            self._check_size(size)
            await self._budget.wait(size)
        return self._take(payload, key, headers)

    def accept(self, payload: Buffer | None, key: Buffer | None, headers: Headers) -> Waiter | None:
        """As `submit`, if there is buffer space; None if not, and then nothing is accepted."""
        return None if self._budget.tight else self._take(payload, key, headers)

    def submit_nowait(self, payload: Buffer | None, key: Buffer | None, headers: Headers) -> Waiter:
        """The same without waiting: QueueFullError if the buffer is full."""
        self._refuse_if_full()
        return self._take(payload, key, headers)

    def _take(self, payload: Buffer | None, key: Buffer | None, headers: Headers) -> Waiter:
        if type(payload) is not bytes:
            payload = as_bin(payload, "a payload")
        if key is not None:
            key = as_bin(key, "a key")
        flat = flat_headers(headers) if headers else NO_HEADERS
        # Not before: an iterator of the program may have ended this writer.
        if self.refusal is not None:
            raise self.refusal.copy()
        waiter: Waiter = self._loop.create_future()
        for batch in self._batcher.add(payload, key, flat, waiter, self._loop.time()):
            self._dispatch(PendingEntry(batch, whole=False))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._turn_end.call(self)
        return waiter

    async def append_many(
        self,
        payloads: Iterable[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        headers: Sequence[Headers] | None,
    ) -> asyncio.Future[MessageIds]:
        """Accept a whole entry, waiting for buffer space first; the future gets its ids."""
        self._check_open()
        return await self.append_batch(Batch.of(self.limits, payloads, keys=keys, headers=headers))

    async def append_batch(self, batch: Batch[Waiter]) -> asyncio.Future[MessageIds]:
        """As `append_many`, for messages collected before."""
        self._check_open()
        waiter, pending_entry = self._whole(batch)
        if self._budget.tight:
            await self._budget.wait(pending_entry.size)
            self._check_open()
        self.flush()
        self._dispatch(pending_entry)
        return waiter

    def append_batch_nowait(self, batch: Batch[Waiter]) -> asyncio.Future[MessageIds]:
        """The same without waiting: QueueFullError if the buffer is full."""
        self._refuse_if_full()
        self._check_open()
        waiter, pending_entry = self._whole(batch)
        self.flush()
        self._dispatch(pending_entry)
        return waiter

    def _whole(self, batch: Batch[Waiter]) -> tuple[asyncio.Future[MessageIds], PendingEntry]:
        waiter: asyncio.Future[MessageIds] = self._loop.create_future()
        batch.tokens.append(waiter)
        return waiter, PendingEntry(batch, whole=True)

    async def append_sequenced(
        self, producer_id: bytes, first_sequence: int, batch: Batch[Waiter]
    ) -> asyncio.Future[Appended]:
        """As `append_batch`, for messages of a producer. What was appended before is not appended again."""
        self._check_open()
        if self._budget.tight:
            try:
                await self._budget.wait(batch.body_bytes + ENTRY_OVERHEAD_BYTES)
            except asyncio.CancelledError:
                self.producers.leave_out(producer_id, first_sequence, first_sequence + batch.count - 1)
                raise
            self._check_open()
        waiter: asyncio.Future[Appended] = self._loop.create_future()
        entry = self.producers.accept(producer_id, first_sequence, batch, waiter)
        if entry is not None:
            self.flush()
            self._dispatch(entry)
        return waiter

    def flush(self) -> None:
        """Send the partial batch now."""
        batch = self._batcher.take()
        if batch is not None:
            self._dispatch(PendingEntry(batch, whole=False))

    def flushed(self) -> asyncio.Future[None]:
        """Send the partial batch now; the future is done once everything accepted before has its outcome."""
        self.flush()
        future: asyncio.Future[None] = self._loop.create_future()
        self._flushes.append((self._dispatched, future))
        self._drop_settled()
        return future

    @property
    def has_unread_failures(self) -> bool:
        """Whether an append failed and its error was not read."""
        return any(map(_is_unread, self._failed))

    def unread_failures(self) -> list[BaseException]:
        """The errors of failed appends that were not read. They count as read from now on."""
        failed, self._failed = self._failed, []
        self._failed_max = _FAILED_MIN
        return [error for waiter in failed if _is_unread(waiter) and (error := waiter.exception())]

    def _note_failed(self, pending_entry: PendingEntry) -> None:
        """Keep those whose error is unread. A program that never flushes reads them all, one after the other."""
        failed = self._failed
        failed.extend(filter(_is_unread, pending_entry.waiters))
        if len(failed) > self._failed_max:
            failed[:] = filter(_is_unread, failed)
            self._failed_max = _FAILED_MIN + 2 * len(failed)

    def _drop_settled(self) -> None:
        unsettled, flushes = self._unsettled, self._flushes
        while unsettled and unsettled[0].settled:
            unsettled.popleft()
        while flushes and flushes[0][0] <= self._dispatched - len(unsettled):
            future = flushes.popleft()[1]
            if not future.done():
                future.set_result(None)

    def on_turn_end(self) -> None:
        """Send the partial batch if it leaves now, together with what was sent in this turn of the loop."""
        self._flush_scheduled = False
        active_ledger = self._active_ledger
        self._flush_due(flushes=active_ledger is not None)
        if active_ledger is not None:
            active_ledger.handle.flush()

    def _flush_due(self, *, flushes: bool = False) -> None:
        """At the end of a loop iteration, after acks, and when a partial batch has lingered long enough.

        `flushes`: the caller flushes the ledger next. With many logs, a flush scheduled for each entry costs more.
        """
        batch = self._batcher.due(self._loop.time(), in_flight=self._entries_in_flight > 0)
        if batch is not None:
            self._dispatch(PendingEntry(batch, whole=False), flushes=flushes)
        elif self._timer is None and (deadline := self._batcher.deadline()) is not None:
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._flush_due()

    # ---- to the ledger

    def _dispatch(self, pending_entry: PendingEntry, *, flushes: bool = False) -> None:
        now = pending_entry.accepted_at = self._loop.time()
        self._budget.take(pending_entry.size)
        if self.deadline is not None and not self.deadline.running:
            self.deadline.start()
        self._unsettled.append(pending_entry)
        self._dispatched += 1
        if self._active_ledger is None or self._held:
            self._held.append(pending_entry)
        else:
            self._send(self._active_ledger, pending_entry, now, flushes=flushes)

    def _send(
        self, active_ledger: ActiveLedger, pending_entry: PendingEntry, now: float, *, flushes: bool = False
    ) -> None:
        now_us = self._environment.wall_us()
        if now_us < self._last_append_us:
            now_us = self._last_append_us
        self._last_append_us = now_us
        producers = self.producers if self.producers.in_use else None
        place = None if producers is None else producers.place_for(active_ledger, pending_entry)
        if pending_entry.settled or not pending_entry.encode(
            epoch=self._epoch,
            append_time_us=now_us,
            codec=self._codec,
            messages_before=active_ledger.messages_submitted,
            producers=place,
        ):
            self._leave_out(pending_entry)
            return
        try:
            entry_id = active_ledger.submit(pending_entry, now, flushes=flushes)
        except LogStoreError as error:
            # The limits leave capacity for all that an entry may have. If one is refused all the same, it is certainly
            # absent, and its callers get an outcome.
            self._leave_out(pending_entry)
            pending_entry.fail_absent(error)
            self._note_failed(pending_entry)
            return
        if producers is not None:
            producers.on_submitted(active_ledger, pending_entry, place)
        self._tail = active_ledger.ledger_id, entry_id, pending_entry.count - 1
        self._entries_in_flight += 1

    def _leave_out(self, pending_entry: PendingEntry) -> None:
        """Every caller has cancelled before it was sent, or it is refused, or it has failed with an earlier one of its
        producer."""
        if isinstance(pending_entry, ProducerEntry) and not pending_entry.settled:
            for failed in self.producers.withdraw(pending_entry):
                self._note_failed(failed)
        pending_entry.settled = True
        self._budget.give_back(pending_entry.size)
        self._drop_settled()

    def hold(self) -> None:
        """Submit nothing to any ledger until `submit_to`."""
        self._active_ledger = None

    def submit_to(self, active_ledger: ActiveLedger) -> None:
        """Submit what was held, in order, and from then on everything new, to this ledger."""
        self._active_ledger = active_ledger
        held = self._held
        while held and self._active_ledger is active_ledger and active_ledger.handle.failed is None:
            self._send(active_ledger, held.popleft(), self._loop.time())

    # ---- from the ledger

    def on_acked(self, entries: int, size: int) -> None:
        """Entries were acknowledged: free their bytes; a waiting partial batch may leave."""
        self._entries_in_flight -= entries
        self._budget.give_back(size)
        self._drop_settled()
        if self._batcher.open_count:
            self._flush_due()

    def take_back(self, entries: Sequence[PendingEntry]) -> None:
        """Hold entries whose absence is proved again, before all others, with their original messages."""
        self._entries_in_flight -= len(entries)
        self._held.extendleft(reversed(entries))
        self.producers.take_back(entries)

    def fail_indeterminate(self, active_ledger: ActiveLedger, cause: LogStoreError) -> None:
        """Fail the entries in flight in this ledger: their outcome cannot be determined here."""
        taken = active_ledger.take_back()
        for pending_entry in taken:
            pending_entry.fail_indeterminate(active_ledger.ledger_id, cause)
            self._note_failed(pending_entry)
        self.on_acked(len(taken), sum(pending_entry.size for pending_entry in taken))

    # ---- the end

    def refuse(self, error: LogStoreError) -> None:
        """Accept nothing new; callers that wait for buffer space get this error."""
        if self.refusal is None:
            self.refusal = error
        self._budget.refuse_all(error)

    def fail_held(self, error: LogStoreError) -> None:
        """Fail what was not submitted to a ledger, which is certainly absent, with this error."""
        self.refuse(error)
        self._active_ledger = None
        batch = self._batcher.take()
        if batch is not None:
            self._dispatch(PendingEntry(batch, whole=False))
        held, self._held = self._held, deque()
        for pending_entry in held:
            pending_entry.fail_absent(error)
            self._note_failed(pending_entry)
            self._budget.give_back(pending_entry.size)
        self._drop_settled()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """The writer has ended: every append has its outcome."""
        self._budget.close()

    def _refuse_if_full(self) -> None:
        if self._budget.tight and not self._budget.has_capacity():
            self._check_open()
            raise self.full_error()

    def full_error(self, what: str = " has no capacity") -> QueueFullError:
        """Which limit has left no capacity. `what`: the beginning of the message, after "the writer"."""
        who, held, limit, setting = "it holds", self.buffered_bytes, self.buffer_bytes_max, "buffer_bytes_max"
        shared = self._shared_budget
        if held < limit and shared.is_full:
            who, setting = "all writers of the client hold", "unacknowledged_bytes_max"
            held, limit = shared.used, shared.bytes_max
        return QueueFullError(
            f"the writer{what}: {who} {held} unacknowledged bytes, the limit is {limit}; "
            f"wait for appends to succeed, or raise {setting}",
            queued_bytes=held,
            queued_bytes_max=limit,
        )

    def _check_open(self) -> None:
        if self.refusal is not None:
            raise self.refusal.copy()

    def _check_size(self, size: int) -> None:
        """Refuse a message that can never fit before it waits for buffer space."""
        if size > self.limits.entry_bytes_max + _MESSAGE_OVERHEAD_BYTES:
            raise MessageTooLargeError(
                f"the message has {size} bytes, entry_bytes_max is {self.limits.entry_bytes_max}: split it",
                entry_bytes=size + ENTRY_OVERHEAD_BYTES,
                entry_bytes_max=self.limits.entry_bytes_max,
            )


def _limits_beside(
    limits: BatchLimits, producers: Mapping[bytes, LastMessage] | None, ledger_bytes_max: int
) -> BatchLimits:
    """Leave capacity for a snapshot of these producers, as an entry may have one in addition to its messages.

    For unknown ones at most an eighth of an entry: other appends go on, whether or not all producers fit.
    """
    if producers is None:
        snapshot_bytes = min(PRODUCERS_MAX * PRODUCER_BYTES, ledger_bytes_max // 8)
    else:
        snapshot_bytes = len(producers) * PRODUCER_BYTES
    highest = max(ENTRY_BYTES_MIN, ledger_bytes_max - snapshot_bytes)
    return limits if limits.entry_bytes_max <= highest else replace(limits, entry_bytes_max=highest)


def _size(payload: bytes | None, key: bytes | None) -> int:
    return _MESSAGE_OVERHEAD_BYTES + (len(payload) if payload else 0) + (len(key) if key else 0)


def _is_unread(waiter: Waiter) -> bool:
    """Whether it failed and its exception was not retrieved: what asyncio itself logs when it is collected."""
    return waiter._log_traceback  # not documented; a test pins its meaning
