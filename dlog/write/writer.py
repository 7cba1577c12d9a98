"""The writer of a log.

    async with client.open_writer("orders") as writer:
        message_id = await writer.append(b"payload")

A writer owns the log until it is closed or another writer takes over. Ids increase in the order of the calls, and an
append that returned is durable and readable. Every append ends in one of four ways (docs/log-semantics.md#rule-8): its
id; an error that says that the message is certainly absent; AppendIndeterminateError with the only id it can have; or,
if its caller was cancelled, any of these without being reported.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from dlog.core.batching import Batch, BatchLimits, Headers
from dlog.errors import (
    AppendAbortedError,
    AppendRejectedError,
    AppendsFailedError,
    CallTimeoutError,
    LogNotFoundError,
    QueueFullError,
    WriterDeposedError,
)
from dlog.format.message import Buffer, as_bin, flat_headers, header_pairs
from dlog.format.producer_snapshot import producer_id
from dlog.metadata.log_ref import LogRef
from dlog.model import NO_MESSAGE, LogMetadata, MessageId, MessageIds, Owner, check_log_name
from dlog.write.append_queue import AppendQueue
from dlog.write.pending_entry import Waiter
from dlog.write.producer import LogProducer
from dlog.write.rotation_runner import RotationRunner
from dlog.write.unread_failures import raise_unless_raising, unread_failures
from ledger.arguments import require_type
from ledger.errors import LogStoreError
from ledger.model import LedgerId

_READ_TURNS = 3
"""Turns of the loop until a task that awaits an append has its outcome; a timeout around it takes one more."""


class LogWriter:
    """Obtained from `LogClient.open_writer`; `async with` closes it. Used on the loop that opened it.

    After its end (`close`, `abort`, a takeover by another writer, a hand-over to one that asked for the log, or an
    append that waited longer than `hold_limit_s`) every new append raises the reason, which is also in `refusal`.
    """

    __slots__ = (
        "__weakref__",
        "_closing",
        "_found_tail",
        "_owner",
        "_queue",
        "_ref",
        "_rotation",
        "_warns",
    )

    def __init__(
        self,
        ref: LogRef,
        owner: Owner,
        queue: AppendQueue,
        rotation: RotationRunner,
        *,
        warns: bool = True,
    ) -> None:
        """`warns`: emit a ResourceWarning if collected unclosed; a simulated process that was killed must not."""
        self._warns = warns
        self._ref = ref
        self._owner = owner
        self._queue = queue
        self._rotation = rotation
        self._closing: asyncio.Future[None] | None = None
        self._found_tail: MessageId | None = None

    def __repr__(self) -> str:
        return f"<Writer {self.log} epoch {self.epoch} {'active' if self.active else 'closed'}>"

    # ---- facts

    @property
    def log(self) -> str:
        """Namespace and name of the log, as `namespace/name`."""
        return str(self._ref)

    @property
    def owner(self) -> Owner:
        """This writer as the log's record names it."""
        return self._owner

    @property
    def over(self) -> asyncio.Future[None]:
        """Done once the writer has ended and every append has its outcome. Do not cancel it."""
        return self._rotation.over

    @property
    def epoch(self) -> int:
        """The log's epoch in which this writer owns it."""
        return self._rotation.record.epoch

    @property
    def record(self) -> LogMetadata:
        """The log's record as this writer last read or wrote it."""
        return self._rotation.record

    @property
    def position(self) -> MessageId | None:
        """The id that the next entry would get if sent now; None while no ledger takes appends."""
        active_ledger = self._queue.active_ledger
        if active_ledger is None or self._queue.holding:
            return None
        return MessageId(active_ledger.ledger_id, active_ledger.next_entry_id, 0)

    @property
    def degraded(self) -> bool:
        """Whether the active ledger has fewer bookies than configured (docs/log-semantics.md#rule-19b)."""
        active_ledger = self._rotation.current
        return active_ledger is not None and active_ledger.use.degraded

    @property
    def buffered_bytes(self) -> int:
        """Bytes accepted and not yet acknowledged, and what each message and its result occupy in addition."""
        return self._queue.buffered_bytes

    @property
    def buffer_bytes_max(self) -> int:
        """Limit of `buffered_bytes`; may be exceeded by an entry or two."""
        return self._queue.buffer_bytes_max

    @property
    def free_bytes(self) -> int:
        """Bytes that callers may collect now, to append them later, within the limits of this and of all writers."""
        return self._queue.free_bytes

    def full_error(self, waited_s: float) -> QueueFullError:
        """Which limit has left no capacity for an append that has waited for this time."""
        return self._queue.full_error(f" of log {self.log} had no capacity for {waited_s:g} s")

    @property
    def has_unread_failures(self) -> bool:
        """Whether an append failed and its outcome was not read (dlog/write/unread_failures.py)."""
        return self._queue.has_unread_failures

    def unread_failures(self) -> AppendsFailedError | None:
        """One error for all appends that failed and whose outcome was not read; they then count as read."""
        return unread_failures(self.log, self._queue.unread_failures())

    @property
    def refusal(self) -> LogStoreError | None:
        """The error that a new append would raise; None while appends are accepted."""
        return self._queue.refusal

    @property
    def batch_limits(self) -> BatchLimits:
        """Limits of one entry and of batching, from the client's configuration."""
        return self._queue.limits

    @property
    def active(self) -> bool:
        """False once the writer is closed or deposed, has handed the log over, or has given up."""
        return self._closing is None and self._queue.refusal is None

    # ---- appending

    async def append(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        expect_tail: MessageId | str | None = None,
    ) -> MessageId:
        """Append one message; return its id once it is durable on the ack quorum and readable.

        With fast visibility readers follow within `lac_interval_s`. A `payload` of None is a tombstone. `headers` are
        pairs of bytes. `expect_tail`: append only if the log's last message has this id (NO_MESSAGE: if the log has
        none). A cancelled call whose message was not sent leaves it certainly absent; one that was sent may be stored.

        Raises:
            MessageTooLargeError: exceeds `entry_bytes_max`; certainly absent.
            AppendRejectedError: the log does not end with `expect_tail`; certainly absent.
            WriterDeposedError: another client took the log over before the message was sent; certainly absent.
            AppendAbortedError: the writer was closed or gave up before the message was sent; certainly absent.
            AppendIndeterminateError: in flight when the writer ended; at `error.message_id` or nowhere
                (`LogClient.resolve`).
            ConfigurationError: payload, key, headers or `expect_tail` are not valid; certainly absent.
            QueueFullError: with `expect_tail` only: the buffer is full; certainly absent.
            ReadError, MetadataUnavailableError, ContendedError: with `expect_tail` only: the log's last message cannot
                be read now; certainly absent.
            DataLossError: with `expect_tail` only: the log's last message is lost; certainly absent.

        Source: docs/log-semantics.md#rule-8, #rule-12, #rule-13.
        """
        future: asyncio.Future[MessageId] | None
        if expect_tail is None:
            future = self._queue.accept(payload, key, headers)
            if future is None:
                future = await self._queue.submit(payload, key, headers)
        else:
            future = await self.submit_expecting(MessageId.of(expect_tail), payload, key, headers)
        return await future

    async def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        expect_tail: MessageId | str | None = None,
    ) -> MessageIds:
        """Append messages as one entry, all or none; return their ids once they are durable and readable.

        `keys` and `headers`, if given, have one element for each payload. `expect_tail` as for `append`.

        Raises:
            AppendRejectedError: `payloads` is empty, or the log does not end with `expect_tail`.
            MessageTooLargeError: together they exceed `entry_bytes_max`.
            ConfigurationError: `keys` or `headers` have another length, or a value has a wrong type.
            The other errors of `append`, for all messages together.

        Source: docs/log-semantics.md#rule-6, #rule-12.
        """
        submitted = self.submit_many(payloads, keys=keys, headers=headers, expect_tail=expect_tail)
        return await (await submitted)

    async def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        expect_tail: MessageId | str | None = None,
    ) -> asyncio.Future[MessageIds]:
        """Submit messages that become one entry, waiting only for buffer space; the future gets their ids.

        The call raises the argument errors of `append_many` and, if the writer has ended, WriterDeposedError or
        AppendAbortedError; the future gets every other outcome. With `expect_tail` the call also raises what `append`
        raises for it: it does not wait for buffer space, and the first one of a writer may wait for the log's last
        message.
        """
        if expect_tail is None:
            return await self._queue.append_many(payloads, keys, headers)
        expected = MessageId.of(expect_tail)
        return await self.submit_batch(
            self.batch_of(payloads, keys=keys, headers=headers), expect_tail=expected
        )

    def batch_of(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Batch[Waiter]:
        """Check and collect messages for `submit_batch`. The only method that may be called from any thread.

        Raises:
            AppendRejectedError: `payloads` is empty.
            MessageTooLargeError: together they exceed `entry_bytes_max`.
            ConfigurationError: `keys` or `headers` have another length, or a value has a wrong type.
        """
        return Batch.of(self._queue.limits, payloads, keys=keys, headers=headers)

    async def submit_batch(
        self, batch: Batch[Waiter], *, expect_tail: MessageId | None = None
    ) -> asyncio.Future[MessageIds]:
        """As `submit_many`, for messages that `batch_of` has collected. A batch can be submitted once."""
        if expect_tail is None:
            return await self._queue.append_batch(batch)
        await self._check_tail(expect_tail)
        return self._queue.append_batch_nowait(batch)

    def submit(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()
    ) -> Coroutine[Any, Any, asyncio.Future[MessageId]]:
        """Submit one message, waiting only for buffer space; the future gets its id.

        Ids increase in the order of the calls. Cancelling the future before the message has left its batch makes it
        certainly absent. The call raises MessageTooLargeError and ConfigurationError and, if the writer has ended,
        WriterDeposedError or AppendAbortedError; the future gets every other outcome of `append`.
        """
        return self._queue.submit(payload, key, headers)

    def submit_nowait(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()
    ) -> asyncio.Future[MessageId]:
        """As `submit`, without waiting.

        Raises:
            QueueFullError: the buffer is full; the message is certainly absent.
            The errors that the call of `submit` raises.
        """
        return self._queue.submit_nowait(payload, key, headers)

    async def submit_expecting(
        self, expected: MessageId, payload: Buffer | None, key: Buffer | None, headers: Headers
    ) -> asyncio.Future[MessageId]:
        """Submit one message if the log's last one has this id; never waits for buffer space. The future gets its id.

        The call raises what `append` raises of arguments, of `expect_tail` and once the writer has ended.

        Invariant: no code of the program runs between the comparison and the message's place in the log.
        """
        payload, key = as_bin(payload, "a payload"), as_bin(key, "a key")
        if headers:
            headers = header_pairs(flat_headers(headers))
        await self._check_tail(expected)
        return self._queue.submit_nowait(payload, key, headers)

    async def producer(self, name: str) -> LogProducer:
        """The producer of this name, whose messages are appended at most once each, by their sequence numbers.

        What a producer has appended is in the log itself, so it is known after every takeover, however long ago it was.
        A name has 1 to 200 letters, digits, `.`, `_` or `-`. Two programs must not use the same one. Waits only if
        that could not be read when the log was taken over.

        Raises:
            InvalidNameError: the name is not valid.
            ConfigurationError: the log has more producers than `ledger.entry_bytes_max` leaves capacity for.
            DataLossError: what producers have appended is lost.
            ReadError, MetadataUnavailableError, ContendedError: it cannot be read now.
            WriterDeposedError: another client took the log over, or it was deleted.
            AppendAbortedError: the writer was closed or gave up.

        Source: docs/log-semantics.md#rule-36.
        """
        check_log_name(name)
        await self._learn_producers()
        self._queue.producers.open_anew(producer_id(name))
        return LogProducer(self._queue, name)

    async def forget_producer(self, name: str) -> bool:
        """Drop what is known of a producer that is not used any more; whether there was one.

        A later producer of this name begins anew, and could append messages a second time. This takes effect in the
        log with the next append: if the writer ends before, the producer is still known.

        Raises:
            AppendRejectedError: appends of the producer have no outcome yet.
            The errors of `producer`.
        """
        check_log_name(name)
        await self._learn_producers()
        return self._queue.producers.forget(producer_id(name))

    async def _learn_producers(self) -> None:
        try:
            if self.refusal is None:
                await self._rotation.learn_producers()
        except LogNotFoundError as error:
            raise self._deleted() from error
        self._refuse_if_ended()

    def _refuse_if_ended(self) -> None:
        if self.refusal is not None:
            raise self.refusal.copy()

    def _deleted(self) -> WriterDeposedError:
        return WriterDeposedError(
            f"log {self.log} was deleted: this writer accepts no more appends", log=self.log
        )

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send what is batched and wait until everything submitted before has its outcome.

        Appends whose outcome was not an error are then durable and readable.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read (dlog/write/unread_failures.py).
            CallTimeoutError: not done within `timeout_s` seconds; the appends go on.
            ConfigurationError: `timeout_s` is not a number.
        """
        require_type("timeout_s", timeout_s, float, type(None))
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.flushed()
        except TimeoutError:
            raise self.undecided_error(timeout_s) from None
        await self._raise_failures()

    async def start_flush(self) -> asyncio.Future[None]:
        """Send what is batched; the future is done once everything submitted before has its outcome."""
        return self._queue.flushed()

    async def _raise_failures(self) -> None:
        # A task that waits for an append which failed just now reads its outcome when it runs, some turns later.
        for _ in range(_READ_TURNS):
            if not self.has_unread_failures:
                return
            await asyncio.sleep(0)
        failure = self.unread_failures()
        if failure is not None:
            raise failure

    async def _check_tail(self, expected: MessageId) -> None:
        """There is one writer, so the condition is decided here. Nothing is awaited between it and submit.

        Source: docs/log-semantics.md#rule-12.
        """
        # The log's last message may be a later writer's: a program that reads it and decides again must learn that this
        # writer has ended, or it would do so without end.
        self._refuse_if_ended()
        if self._queue.tail is None and self._found_tail is None:
            try:
                self._found_tail = await self._rotation.last_sealed_message()
            except LogNotFoundError as error:
                raise self._deleted() from error
            self._refuse_if_ended()
        self._queue.flush()
        tail = self._queue.tail or self._found_tail
        if self._queue.holding or tail != expected:
            raise AppendRejectedError(
                f"{self._why_rejected(expected, tail)}: read to the end of the log, then decide again",
                expected=expected,
                tail=tail,
            )

    def _why_rejected(self, expected: MessageId, last: MessageId | None) -> str:
        if self._queue.holding:
            return f"the last message of log {self._ref} is not decided yet"
        if last == NO_MESSAGE:
            return f"log {self._ref} has no message, so its last one is not {expected}"
        if expected == NO_MESSAGE:
            return f"log {self._ref} is not empty: its last message is {last}"
        return f"the last message of log {self._ref} is {last}, not {expected}"

    # ---- ledgers

    async def rotate(self) -> LedgerId:
        """Seal the active ledger and continue in a new one; returns the id of the ledger then active.

        An empty ledger is kept. Appends continue during the rotation. On an error the old ledger stays active and the
        rotation is tried again later, unless the writer has ended.

        Raises:
            NotEnoughBookiesError: too few writable bookies for a new ledger.
            MetadataUnavailableError: the metadata store cannot be reached.
            MetadataOutcomeUnknownError: the answer to the creation of the ledger was lost; it may exist, unlisted.
            RecordTooLargeError: a record of an older format is full: open the log again.
            WriterDeposedError: another client took the log over.
            AppendAbortedError: the writer was closed or gave up.

        Source: docs/log-semantics.md#rule-15, #rule-17, #rule-18.
        """
        return await self._rotation.rotate()

    # ---- the end

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything accepted has its outcome, seal the active ledger and end the writer.

        After `timeout_s` seconds, or if cancelled, appends in flight end indeterminate, those not sent are aborted,
        and the next writer recovers the ledger. The same happens if the ledger cannot be sealed within `hold_limit_s`.
        A writer that was deposed or gave up seals nothing. A second call only waits: if it is cancelled, the first one
        goes on.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read (dlog/write/unread_failures.py). Raised
                after the writer has ended.
            ConfigurationError: `timeout_s` is not a number.
        """
        require_type("timeout_s", timeout_s, float, type(None))
        is_first = self._closing is None
        if self._closing is None:
            self._closing = self._rotation.over
            self._queue.flush()
            self._queue.refuse(self.closed_error())
            self._rotation.close()
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._closing)
        except TimeoutError:
            self.abort()
        except asyncio.CancelledError:
            if is_first:
                self.abort()
            raise
        await self._raise_failures()

    def abort(self) -> None:
        """End the writer immediately and leave its ledger unsealed; the next writer recovers it.

        Appends in flight end with AppendIndeterminateError, those not sent with AppendAbortedError.
        """
        self._rotation.give_up(self.closed_error())
        self._closing = self._rotation.over

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except AppendsFailedError as failure:
            raise_unless_raising(failure, error)

    def __del__(self) -> None:
        if self.active and self._warns:
            warnings.warn(f"unclosed writer of log {self._ref}", ResourceWarning, source=self, stacklevel=2)

    def closed_error(self) -> AppendAbortedError:
        """The error of an append after `close`."""
        return AppendAbortedError(f"the writer of log {self._ref} is closed: open another one", log=self.log)

    def undecided_error(self, timeout_s: float | None) -> CallTimeoutError:
        """The error of a `flush` that took longer than `timeout_s`."""
        return CallTimeoutError(
            f"some appends to log {self._ref} have no outcome after {timeout_s:g} s; they continue",
            timeout_s=timeout_s,
        )
