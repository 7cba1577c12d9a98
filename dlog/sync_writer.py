"""The blocking face of a writer: appends cross to the loop in runs, and their outcomes come back in runs.

Law: calls of one thread keep their order, whichever method they use, because all of them go through one queue.
What waits to cross is bounded; beyond it a call waits, and so the writer's own limit by bytes is felt here, too.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dlog.core.batching import Headers
from dlog.errors import AppendAbortedError, QueueFullError
from dlog.format.message import Buffer, as_bin, as_bin_column, flat_headers
from dlog.loop_thread import LOOK_S, LoopThread
from dlog.message_ids import MessageIds
from dlog.model import MessageId, Owner
from dlog.writer import LogWriter
from ledger.errors import ConfigurationError, LogStoreError
from ledger.model import LedgerId

T = TypeVar("T")

_CROSSING_MAX = 5_000
"""Calls handed over and not yet accepted by the writer: some milliseconds of work for the loop."""


class Pending(Generic[T]):
    """An append under way. Settled once; `result` waits for that."""

    __slots__ = ("_board", "_done", "_error", "_value")

    def __init__(self, board: _Board) -> None:
        self._board = board
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def result(self, timeout_s: float | None = None) -> T:
        """The outcome, as `append` returns or raises it. TimeoutError if it is not decided in time."""
        if not self._done and not self._board.wait_until(lambda: self._done, timeout_s):
            raise TimeoutError(f"the append is not decided after {timeout_s} s and goes on")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # settled without error: there is a value

    def settle(self, future: asyncio.Future[T]) -> None:
        """On the loop: take the outcome over."""
        cancelled = future.cancelled()
        self._error = AppendAbortedError("the append was cancelled") if cancelled else future.exception()
        if self._error is None:
            self._value = future.result()
        self._done = True
        self._board.changed()

    def fail(self, error: BaseException) -> None:
        """On the loop: it was never accepted."""
        self._error = error
        self._done = True
        self._board.changed()


class _Board:
    """Where threads wait for what the loop does. One notification serves a whole loop iteration."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._condition = threading.Condition()
        self._waiting = 0
        self._notifying = False

    def wait_until(self, true: Callable[[], bool], timeout_s: float | None = None) -> bool:
        give_up_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            self._waiting += 1
            try:
                # No wait is long: see loop_thread.result_of.
                while not self._condition.wait_for(true, min(LOOK_S, give_up_at - time.monotonic())):
                    if time.monotonic() >= give_up_at:
                        return False
                return True
            finally:
                self._waiting -= 1

    def changed(self) -> None:
        # A waiter counts itself before it looks, and what it looks at changed before this: none is missed.
        if self._waiting and not self._notifying:
            self._notifying = True
            self._loop.call_soon(self.notify)

    def notify(self) -> None:
        """Let every waiter look again."""
        self._notifying = False
        with self._condition:
            self._condition.notify_all()


_Message = tuple[Buffer | None, Buffer | None, Headers]
_Call = Callable[[], Coroutine[Any, Any, "asyncio.Future[Any]"]]


class Writer:
    """Obtained from Client.open_writer; `with` closes it."""

    def __init__(self, thread: LoopThread, writer: LogWriter) -> None:
        self._thread = thread
        self._writer = writer
        self._board = _Board(thread.loop)
        self._calls: deque[tuple[_Message | None, _Call | None, Pending[Any]]] = deque()
        self._pump_runs = False
        self._lock = threading.Lock()
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
        """Hand over one message, waiting only for room; `result()` of what it returns waits for the outcome."""
        # Checked here, so that a wrong argument is an error of this call and not of its outcome.
        if headers:
            headers = _pairs(headers)
        return self._hand_over((as_bin(payload, "a payload"), as_bin(key, "a key"), headers), None)

    def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Pending[MessageIds]:
        """Hand over messages that become one entry."""
        writer, column = self._writer, as_bin_column(payloads, "a payload")
        key_column = None if keys is None else as_bin_column(keys, "a key")
        pairs = None if headers is None else [_pairs(each) for each in headers]
        return self._hand_over(None, lambda: writer.submit_many(column, keys=key_column, headers=pairs))

    def _hand_over(self, message: _Message | None, call: _Call | None) -> Pending[Any]:
        pending: Pending[Any] = Pending(self._board)
        calls = self._calls
        if len(calls) >= _CROSSING_MAX:
            self._board.wait_until(lambda: len(calls) < _CROSSING_MAX // 2)
        with self._lock:
            if self._closed or self._thread.closed:
                raise ConfigurationError(f"the writer of log {self._writer.log} is closed: open another one")
            calls.append((message, call, pending))
            start, self._pump_runs = not self._pump_runs, True
        if start:
            self._thread.start(self._pump())
        return pending

    async def _pump(self) -> None:
        """On the loop: one after the other, so that order is kept where one waits for room."""
        try:
            while True:
                while self._calls:
                    await self._cross(*self._calls.popleft())
                    if len(self._calls) == _CROSSING_MAX // 2 - 1:
                        self._board.changed()
                with self._lock:
                    # A call handed over from now on finds that no pump runs, and starts one.
                    if not self._calls:
                        self._pump_runs = False
                        return
        except asyncio.CancelledError:
            self._refuse_the_rest()
            raise
        finally:
            self._board.changed()

    async def _cross(self, message: _Message | None, call: _Call | None, pending: Pending[Any]) -> None:
        try:
            if message is not None:
                future = await self._submit(message)
            else:
                assert call is not None
                future = await call()
        except asyncio.CancelledError:
            pending.fail(self._closed_error())
            raise
        except LogStoreError as error:
            pending.fail(error)
        else:
            future.add_done_callback(pending.settle)

    def _refuse_the_rest(self) -> None:
        """The loop ends; whoever waits in another thread must not wait for ever."""
        with self._lock:
            self._closed = True
            while self._calls:
                self._calls.popleft()[2].fail(self._closed_error())
        self._board.notify()

    def _closed_error(self) -> AppendAbortedError:
        return AppendAbortedError(
            f"the client of log {self._writer.log} was closed before this was sent", log=self._writer.log
        )

    async def _submit(self, message: _Message) -> asyncio.Future[Any]:
        try:
            return self._writer.submit_nowait(*message)
        except QueueFullError:
            return await self._writer.submit(*message)

    def flush(self) -> None:
        """Send a partial batch now instead of after its linger time."""
        self._thread.call(self._writer.flush)

    def rotate(self) -> LedgerId:
        """Seal the ledger in use and go on in a new one."""
        return self._thread.run(self._writer.rotate())

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
        """Wait until everything handed over is decided, seal the ledger, give the log up."""
        if self._thread.closed:
            return
        if not self._closed:
            self._board.wait_until(lambda: not self._pump_runs)
        self._closed = True
        self._thread.run(self._writer.close(timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pairs(headers: Headers) -> list[tuple[bytes, bytes]]:
    flat = flat_headers(headers)
    return list(zip(flat[0::2], flat[1::2], strict=True))
