"""The writer of a log: what a program appends through.

    async with await client.open_writer("orders") as writer:
        message_id = await writer.append(b"payload")

One handle owns the log until it is closed or another writer takes over. Ids rise in the order of the calls, and
an append that returned is durable and readable. Every append ends in one of four ways (docs/log-semantics.md#rule-8):
its id; an error that says it is certainly absent; AppendIndeterminateError with the only id it can have; or, for
a caller that is cancelled, whichever of these came true without it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from dlog.core.batching import Batch, BatchLimits, Headers
from dlog.errors import AppendAbortedError, AppendRejectedError, AppendsFailedError
from dlog.format.message import Buffer
from dlog.metadata.store import LogRef
from dlog.model import LogMetadata, MessageId, Owner
from dlog.write.append_queue import AppendQueue
from dlog.write.message_ids import MessageIds
from dlog.write.pending_entry import Waiter
from dlog.write.rotation_runner import RotationRunner
from dlog.write.unread_failures import raise_unless_raising, unread_failures
from ledger.arguments import require_type
from ledger.errors import LogStoreError
from ledger.model import LedgerId

_READ_TURNS = 3
"""Turns of the loop until a task that awaits an append has its outcome; a timeout around it takes one more."""


class LogWriter:
    """Obtained from LogClient.open_writer."""

    def __init__(
        self,
        ref: LogRef,
        owner: Owner,
        queue: AppendQueue,
        rotation: RotationRunner,
        *,
        warns: bool = True,
    ) -> None:
        """`warns`: of being collected unclosed, which is no fault where a simulated process was killed."""
        self._warns = warns
        self._ref = ref
        self._owner = owner
        self._queue = queue
        self._rotation = rotation
        self._closing: asyncio.Future[None] | None = None
        self._found_tail: MessageId | None = None

    # ---- facts

    @property
    def log(self) -> str:
        return str(self._ref)

    @property
    def owner(self) -> Owner:
        return self._owner

    @property
    def over(self) -> asyncio.Future[None]:
        """Done once the writer is closed, deposed or has given up and every append is settled. Do not cancel."""
        return self._rotation.over

    @property
    def epoch(self) -> int:
        return self._rotation.record.epoch

    @property
    def record(self) -> LogMetadata:
        """The log's record as this writer last knew it."""
        return self._rotation.record

    @property
    def position(self) -> MessageId | None:
        """The id that the next entry would get, were it sent now; None while no ledger takes appends."""
        active_ledger = self._queue.active_ledger
        if active_ledger is None or self._queue.holding:
            return None
        return MessageId(active_ledger.ledger_id, active_ledger.handle.last_add_pushed + 1, 0)

    @property
    def degraded(self) -> bool:
        """Whether the ledger in use has fewer bookies than configured (docs/log-semantics.md#rule-19b)."""
        active_ledger = self._rotation.current
        return active_ledger is not None and active_ledger.use.degraded

    @property
    def buffered_bytes(self) -> int:
        """Bytes accepted and not yet acked."""
        return self._queue.buffered_bytes

    @property
    def buffer_bytes_max(self) -> int:
        """The limit of `buffered_bytes`; exceeded by an entry or two."""
        return self._queue.buffer_bytes_max

    @property
    def refusal(self) -> LogStoreError | None:
        """Why nothing new is accepted; None while it is."""
        return self._queue.refusal

    @property
    def batch_limits(self) -> BatchLimits:
        return self._queue.limits

    @property
    def active(self) -> bool:
        """False once closed, deposed, or given up."""
        return self._closing is None and not self._rotation.over.done()

    # ---- appending

    async def append(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        expect_tail: MessageId | str | None = None,
    ) -> MessageId:
        """Append one message; return once it is durable and readable.

        `expect_tail`: append only if the log's last message is this one (NO_MESSAGE: if it has none);
        AppendRejectedError otherwise.
        MessageTooLargeError, WriterDeposedError, AppendAbortedError: certainly absent. AppendIndeterminateError:
        it is at `message_id` or nowhere.
        """
        future: asyncio.Future[MessageId]
        if expect_tail is None:
            future = await self._queue.submit(payload, key, headers)
        else:
            await self._check_tail(MessageId.of(expect_tail))
            future = self._queue.submit_nowait(payload, key, headers)
        return await future

    async def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> MessageIds:
        """Append messages as one entry: all of them or none. Rejected whole if it is empty or too large."""
        return await (await self._queue.append_many(payloads, keys, headers))

    async def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> asyncio.Future[MessageIds]:
        """Hand over messages that become one entry, waiting only for room; the future gets their ids."""
        return await self._queue.append_many(payloads, keys, headers)

    def batch_of(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Batch[Waiter]:
        """Check and collect messages for `submit_batch`. The one method that any thread may call."""
        return Batch.of(self._queue.limits, payloads, keys=keys, headers=headers)

    async def submit_batch(self, batch: Batch[Waiter]) -> asyncio.Future[MessageIds]:
        """Submit messages that `batch_of` has collected."""
        return await self._queue.append_batch(batch)

    def submit(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()
    ) -> Coroutine[Any, Any, asyncio.Future[MessageId]]:
        """Hand over one message, waiting only for room; the future gets its id, in the order of the calls.

        Cancelling the future before the message has left its batch makes it certainly absent.
        """
        return self._queue.submit(payload, key, headers)

    def submit_nowait(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()
    ) -> asyncio.Future[MessageId]:
        """The same without waiting: QueueFullError if the buffer is full."""
        return self._queue.submit_nowait(payload, key, headers)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send what is batched now, and wait until everything submitted before is durable and readable.

        AppendsFailedError if an append failed whose outcome nobody has read (dlog/write/unread_failures.py).
        TimeoutError after `timeout_s`; the appends go on.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.flushed()
        except TimeoutError:
            raise TimeoutError(
                f"appends to log {self._ref} are not all decided after {timeout_s} s; they go on"
            ) from None
        await self._raise_failures()

    async def start_flush(self) -> asyncio.Future[None]:
        """Send what is batched now; the future is done once everything submitted before is decided."""
        return self._queue.flushed()

    async def _raise_failures(self) -> None:
        # A task that waits for an append which failed just now reads its outcome when it runs, some turns later.
        for _ in range(_READ_TURNS):
            if not self._queue.has_failures:
                return
            await asyncio.sleep(0)
        failure = unread_failures(self.log, self._queue.unread_failures())
        if failure is not None:
            raise failure

    async def _check_tail(self, expected: MessageId) -> None:
        """There is one writer, so the condition is decided here. Nothing waits between it and submit.

        Source: docs/log-semantics.md#rule-12.
        """
        if self._queue.tail is None and self._found_tail is None:
            self._found_tail = await self._rotation.last_sealed_message()
        self._queue.flush()
        tail = self._queue.tail or self._found_tail
        if self._queue.holding or tail != expected:
            raise AppendRejectedError(
                f"the log does not end with {expected} but with "
                f"{'appends held back' if self._queue.holding else tail}: read up to the tail and decide again",
                expected=expected,
                tail=tail,
            )

    # ---- ledgers

    async def rotate(self) -> LedgerId:
        """Seal the ledger in use and go on in a new one; an empty ledger is kept. Returns the one in use then.

        Appends go on meanwhile. An error means that the old ledger stays in use; a later attempt is made anyway.
        """
        return await self._rotation.rotate()

    # ---- the end

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything accepted is acked, seal the ledger, give the log up.

        After `timeout_s`, or if cancelled, appends in flight end indeterminate and held ones are aborted.
        AppendsFailedError, once all is closed, if an append failed whose outcome nobody has read
        (dlog/write/unread_failures.py).
        """
        require_type("timeout_s", timeout_s, float, type(None))
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
            self.abort()
            raise
        await self._raise_failures()

    def abort(self) -> None:
        """Stop at once and leave the ledger unsealed; the next writer recovers it."""
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
        """What an append gets after `close`."""
        return AppendAbortedError(f"the writer of log {self._ref} is closed: open another one", log=self.log)
