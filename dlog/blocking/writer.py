# mypy: disable-error-code="empty-body"
"""The blocking API of a writer: appends cross to the loop in runs (crossing.py), and so do their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from dlog.blocking.crossing import Crossing
from dlog.blocking.deadline import Deadline
from dlog.blocking.forwarding import forwards
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.not_copied import NotCopied
from dlog.blocking.pending import Board, Pending
from dlog.blocking.producer import Producer
from dlog.core.batching import Headers
from dlog.errors import AppendsFailedError
from dlog.format.message import NO_HEADERS, Buffer, as_bin, flat_headers, header_pairs, message_bytes
from dlog.model import MessageId, MessageIds, Owner
from dlog.write.unread_failures import raise_unless_raising, unread_failures
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, LogStoreError
from ledger.model import LedgerId


class Writer(NotCopied):
    """Obtained from `Client.open_writer`; `with` closes it. May be used from several threads.

    Ids increase in the order of the calls of one thread. Every call raises ForkedError in a process forked from the
    one that opened it, and ConfigurationError once its client is closed.
    """

    def __init__(self, thread: LoopThread, writer: LogWriter) -> None:
        self._thread = thread
        self._target = writer
        self._board = Board(thread)
        self._crossing = Crossing(thread, self._board, writer)
        self._body_bytes_max = writer.batch_limits.body_bytes_max
        self._closed = False
        self._settled = False
        """Whether it has ended, by itself or aborted, and every append has its outcome."""

    # ---- appending

    def append(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        expect_tail: MessageId | str | None = None,
        timeout_s: float | None = None,
    ) -> MessageId:
        """Append one message; return its id once it is durable on the ack quorum and readable.

        A `payload` of None is a tombstone. `headers` are pairs of bytes. `expect_tail`: append only if the log's last
        message has this id (NO_MESSAGE: if the log has none). An interrupted call may have appended the message.

        Raises:
            MessageTooLargeError: exceeds `entry_bytes_max`; certainly absent.
            AppendRejectedError: the log does not end with `expect_tail`; certainly absent.
            WriterDeposedError: another client took the log over before the message was sent; certainly absent.
            AppendAbortedError: the writer was closed or gave up before the message was sent; certainly absent.
            AppendIndeterminateError: in flight when the writer ended; at `error.message_id` or nowhere
                (`Client.resolve`).
            ConfigurationError: payload, key, headers or `expect_tail` are not valid, or a function that the client
                calls, as the callback of an append, has called this; certainly absent.
            QueueFullError: the buffer was full for `timeout_s` seconds, or with `expect_tail`; certainly absent.
            CallTimeoutError: no outcome within `timeout_s` seconds; the append goes on, as `error.pending`.
            ReadError, MetadataUnavailableError, ContendedError: with `expect_tail` only: the log's last message cannot
                be read now; certainly absent.
            DataLossError: with `expect_tail` only: the log's last message is lost; certainly absent.

        Source: docs/log-semantics.md#rule-8, #rule-12, #rule-13.
        """
        self._crossing.check_caller()
        if timeout_s is None and expect_tail is None:
            return self.submit(payload, key, headers).result()
        deadline = Deadline(timeout_s)
        if expect_tail is None:
            return self.submit(payload, key, headers, timeout_s=timeout_s).result_by(deadline)
        return self._submit_expecting(MessageId.of(expect_tail), payload, key, headers, deadline).result_by(
            deadline
        )

    def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        expect_tail: MessageId | str | None = None,
        timeout_s: float | None = None,
    ) -> MessageIds:
        """Append messages as one entry, all or none; return their ids once they are durable and readable.

        `keys` and `headers`, if given, have one element for each payload. `expect_tail` as for `append`.

        Raises:
            AppendRejectedError: `payloads` is empty, or the log does not end with `expect_tail`.
            MessageTooLargeError: together they exceed `entry_bytes_max`.
            ConfigurationError: `keys` or `headers` have another length, or a value has a wrong type.
            The other errors of `append`, for all messages together.
        """
        self._crossing.check_caller()
        deadline = Deadline(timeout_s)
        pending = self.submit_many(
            payloads, keys=keys, headers=headers, expect_tail=expect_tail, timeout_s=timeout_s
        )
        return pending.result_by(deadline)

    def submit(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        timeout_s: float | None = None,
    ) -> Pending[MessageId]:
        """Submit one message, waiting only for buffer space; `result()` of what it returns waits for the outcome.

        The call raises MessageTooLargeError and ConfigurationError, QueueFullError if the buffer was full for
        `timeout_s` seconds (the message is certainly absent), and if the writer has ended WriterDeposedError or
        AppendAbortedError; `result()` raises every other error of `append`. An interrupted call may have submitted it.
        """
        # Checked here, so that a wrong argument is an error of this call and not of its outcome.
        flat = NO_HEADERS
        if headers:
            flat = flat_headers(headers)
            headers = header_pairs(flat)
        payload, key = as_bin(payload, "a payload"), as_bin(key, "a key")
        size = message_bytes(key, payload, flat)
        if size > self._body_bytes_max:
            self._target.batch_limits.check(size, "message")
        deadline = None if timeout_s is None else Deadline(timeout_s)
        return self._crossing.put((payload, key, headers), None, size, deadline)

    def _submit_expecting(
        self,
        expected: MessageId,
        payload: Buffer | None,
        key: Buffer | None,
        headers: Headers,
        deadline: Deadline,
    ) -> Pending[MessageId]:
        """As `submit`, whose steps are not shared: a call more would cost each message."""
        flat = flat_headers(headers) if headers else NO_HEADERS
        message = as_bin(payload, "a payload"), as_bin(key, "a key"), header_pairs(flat)
        size = message_bytes(message[1], message[0], flat)
        self._target.batch_limits.check(size, "message")
        return self._crossing.put(
            None, lambda: self._target.submit_expecting(expected, *message), size, deadline
        )

    def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        expect_tail: MessageId | str | None = None,
        timeout_s: float | None = None,
    ) -> Pending[MessageIds]:
        """Submit messages that become one entry, waiting only for buffer space; `result()` gives their ids.

        The call raises the argument errors of `append_many`, QueueFullError if the buffer was full for `timeout_s`
        seconds (the messages are certainly absent), and if the writer has ended WriterDeposedError or
        AppendAbortedError; `result()` raises every other error, also those of `expect_tail`. Calls that follow wait
        while the first one with `expect_tail` of a writer reads the log's last message.
        """
        expected = None if expect_tail is None else MessageId.of(expect_tail)
        writer, batch = self._target, self._target.batch_of(payloads, keys=keys, headers=headers)
        deadline = None if timeout_s is None else Deadline(timeout_s)
        return self._crossing.put(
            None, lambda: writer.submit_batch(batch, expect_tail=expected), batch.body_bytes, deadline
        )

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what is batched and wait until everything submitted before has its outcome.

        Appends whose outcome was not an error are then durable and readable.

        Raises:
            AppendsFailedError: an append failed and its `result()` was not called since.
            CallTimeoutError: not done within `timeout_s` seconds; the appends go on.
            ConfigurationError: `timeout_s` is not a number of 0 or more.
        """
        deadline = None if timeout_s is None else Deadline(timeout_s)
        mark = self._crossing.put_mark(self._target.start_flush)
        if not self._board.wait_until(mark.done, deadline):
            raise self._target.undecided_error(timeout_s)
        mark.result()
        self._raise_failures()

    @forwards(LogWriter.producer, lambda writer, found: Producer(writer._crossing, found))
    def producer(self, name: str, *, timeout_s: float | None = None) -> Producer: ...

    @forwards(LogWriter.forget_producer)
    def forget_producer(self, name: str, *, timeout_s: float | None = None) -> bool: ...

    @forwards(LogWriter.rotate)
    def rotate(self, *, timeout_s: float | None = None) -> LedgerId: ...

    # ---- facts

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def log(self) -> str:
        """Namespace and name of the log, as `namespace/name`."""
        return self._target.log

    @property
    def epoch(self) -> int:
        """The log's epoch in which this writer owns it."""
        return self._target.epoch

    @property
    def owner(self) -> Owner:
        """This writer as the log's record names it."""
        return self._target.owner

    @property
    def active(self) -> bool:
        """False once the writer is closed or deposed, or has given up."""
        return not self._closed and self._target.active

    @property
    def refusal(self) -> LogStoreError | None:
        """The error that a new append would raise; None while appends are accepted."""
        return self._crossing.refusal

    @property
    def degraded(self) -> bool:
        """Whether the active ledger has fewer bookies than configured (docs/log-semantics.md#rule-19b)."""
        return self._target.degraded

    # ---- life

    def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything submitted has its outcome, seal the active ledger and end the writer.

        After `timeout_s` seconds, or if interrupted, appends in flight end indeterminate, those not sent are aborted,
        and the next writer recovers the ledger. In a process forked from the one that opened it, it does nothing.

        Raises:
            AppendsFailedError: an append failed and its outcome was not read. Raised after the writer has ended.
            ConfigurationError: `timeout_s` is not a number of 0 or more; or a function that the client calls, as the
                callback of an append, has called this. Nothing is closed then.
        """
        Deadline(timeout_s)  # checked before anything is changed
        if self._thread.usable and not self._thread.lost:
            self._thread.check_caller()
            self._stop()
            with self._thread.unless_closed():
                self._thread.run(self._close, timeout_s)
        if not self._thread.forked:
            self._raise_failures()

    def abort(self) -> None:
        """End the writer immediately and leave its ledger unsealed; the next writer recovers it.

        Appends in flight end with AppendIndeterminateError, those not sent with AppendAbortedError.
        """
        self._thread.call(self._target.abort)

    def unread_failures(self) -> AppendsFailedError | None:
        """One error for all appends that failed and whose outcome was not read; they then count as read."""
        unread, errors = self._board.unread, []
        while unread:  # one by one: the loop adds to it
            errors.append(unread.popitem()[1])
        return unread_failures(self.log, errors[::-1])

    def _raise_failures(self) -> None:
        failure = self.unread_failures()
        if failure is not None:
            raise failure

    @property
    def is_open(self) -> bool:
        """Whether its client must close it, or report what failed, when the client is closed."""
        if not (self._closed or self._settled) and self._target.over.done() and self._crossing.empty:
            # Its last outcomes may still be on their way to `unread`: what the loop calls from now on comes after them.
            with suppress(ConfigurationError):  # the client is closed
                self._thread.post(self._note_settled)
        return not (self._closed or self._settled) or bool(self._board.unread)

    def _note_settled(self) -> None:
        self._settled = True

    @property
    def has_undecided(self) -> bool:
        """Whether appends have no outcome yet, or failed unread. Diagnostic only: read without asking the loop."""
        return not self._crossing.empty or self._target.buffered_bytes > 0 or bool(self._board.unread)

    async def drain(self) -> None:
        """On the loop: return once everything submitted so far has crossed to it, or has been refused."""
        await self._crossing.drain()

    def _stop(self) -> None:
        self._closed = True
        self._crossing.refuse(self._target.closed_error())

    async def _close(self, timeout_s: float | None) -> None:
        give_up_at = None if timeout_s is None else self._thread.loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._crossing.drain()
        except TimeoutError:
            pass  # what has not crossed is refused by the closed writer
        except asyncio.CancelledError:
            self._target.abort()
            raise
        await self._target.close(None if give_up_at is None else give_up_at - self._thread.loop.time())
        await self._crossing.drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except AppendsFailedError as failure:
            raise_unless_raising(failure, error)
