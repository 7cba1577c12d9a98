"""The blocking API of a writer: appends cross to the loop in runs (crossing.py), and so do their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from dlog.blocking.crossing import Crossing
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.pending import Board, Pending
from dlog.core.batching import Headers
from dlog.errors import AppendsFailedError
from dlog.format.message import NO_HEADERS, Buffer, as_bin, flat_headers, message_bytes
from dlog.model import MessageId, Owner
from dlog.write.message_ids import MessageIds
from dlog.write.unread_failures import raise_unless_raising, unread_failures
from dlog.write.writer import LogWriter
from ledger.arguments import require_type
from ledger.model import LedgerId


class Writer:
    """Obtained from Client.open_writer; `with` closes it."""

    def __init__(self, thread: LoopThread, writer: LogWriter) -> None:
        self._thread = thread
        self._writer = writer
        self._board = Board(thread)
        self._crossing = Crossing(thread, self._board, writer)
        self._limits = writer.batch_limits
        self._closed = False

    # ---- appending

    def append(self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()) -> MessageId:
        """Append one message; return once it is durable and readable."""
        return self.submit(payload, key, headers).result()

    def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> MessageIds:
        """Append messages as one entry: all of them or none."""
        return self.submit_many(payloads, keys=keys, headers=headers).result()

    def submit(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = ()
    ) -> Pending[MessageId]:
        """Pass one message on, waiting only for capacity; `result()` of what it returns waits for the outcome.

        An interrupted call has passed it on or has not; the log tells.
        """
        # Checked here, so that a wrong argument is an error of this call and not of its outcome.
        flat = NO_HEADERS
        if headers:
            flat = flat_headers(headers)
            headers = list(zip(flat[0::2], flat[1::2], strict=True))
        payload, key = as_bin(payload, "a payload"), as_bin(key, "a key")
        size = message_bytes(key, payload, flat)
        if size > self._limits.body_bytes_max:
            self._limits.check(size, "message")
        return self._crossing.put((payload, key, headers), None, size)

    def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Pending[MessageIds]:
        """Pass on messages that become one entry."""
        writer, batch = self._writer, self._writer.batch_of(payloads, keys=keys, headers=headers)
        return self._crossing.put(None, lambda: writer.submit_batch(batch), batch.body_bytes)

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what is batched now, and wait until everything submitted before is durable and readable.

        AppendsFailedError if an append failed whose outcome nobody has read, that is whose `result()` was not called
        since. TimeoutError after `timeout_s`; the appends go on.
        """
        mark = self._crossing.put_mark(self._writer.start_flush)
        if not self._board.wait_until(mark.done, timeout_s):
            raise TimeoutError(
                f"appends to log {self.log} are not all decided after {timeout_s} s; they go on"
            )
        mark.result()
        self._raise_failures()

    def rotate(self) -> LedgerId:
        """Seal the ledger in use and go on in a new one."""
        return self._thread.run(self._writer.rotate)

    # ---- facts

    @property
    def log(self) -> str:
        return self._writer.log

    @property
    def epoch(self) -> int:
        return self._writer.epoch

    @property
    def owner(self) -> Owner:
        return self._writer.owner

    @property
    def active(self) -> bool:
        """False once closed, deposed, or given up."""
        return not self._closed and self._writer.active

    # ---- life

    def close(self, timeout_s: float | None = None) -> None:
        """Wait until everything submitted is decided, seal the ledger, give the log up.

        After `timeout_s`, or if interrupted, appends in flight end indeterminate and held ones are aborted. In a
        process forked from the one that opened it, it does nothing. AppendsFailedError, once all is closed, if an
        append failed whose outcome nobody has read.
        """
        require_type("timeout_s", timeout_s, float, type(None))
        if self._thread.usable:
            self._stop()
            self._thread.run(self._close, timeout_s)
        if not self._thread.forked:
            self._raise_failures()

    def unread_failures(self) -> AppendsFailedError | None:
        """Of appends that failed and whose outcome nobody has read; they count as read from now on."""
        unread = self._board.unread
        errors = list(unread.values())
        unread.clear()
        return unread_failures(self.log, errors)

    def _raise_failures(self) -> None:
        failure = self.unread_failures()
        if failure is not None:
            raise failure

    @property
    def is_open(self) -> bool:
        """Whether its client has to settle it, or to tell what failed, when it is closed."""
        return not self._closed or bool(self._board.unread)

    @property
    def has_undecided(self) -> bool:
        """Whether appends are under way. Asks nobody."""
        return not self._crossing.empty or self._writer.buffered_bytes > 0

    async def drain(self) -> None:
        """On the loop: everything submitted so far has crossed to it, or has been refused."""
        await self._crossing.drain()

    def _stop(self) -> None:
        self._closed = True
        self._crossing.refuse(self._writer.closed_error())

    async def _close(self, timeout_s: float | None) -> None:
        give_up_at = None if timeout_s is None else self._thread.loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._crossing.drain()
        except TimeoutError:
            pass  # what has not crossed is refused by the closed writer
        except asyncio.CancelledError:
            self._writer.abort()
            raise
        await self._writer.close(None if give_up_at is None else give_up_at - self._thread.loop.time())
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
