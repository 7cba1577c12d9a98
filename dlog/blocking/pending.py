"""The outcome of an append for a blocking caller, and where threads wait for what the loop does.

Invariant: no lock is held while a thread waits or is interrupted, so Ctrl-C at any moment leaves the loop and other
threads undisturbed (dlog/blocking/loop_thread.py says why `threading.Condition` is not used).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dlog.blocking.deadline import Deadline
from dlog.blocking.loop_thread import LOOK_S, LoopThread, closed, locked_gate
from dlog.errors import AppendAbortedError, CallTimeoutError

T = TypeVar("T")


class Board:
    """Where threads wait for what the loop does. One notification serves a whole iteration of the loop."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._gates: deque[threading.Lock] = deque()
        self._notifying = False
        self.unread: dict[Pending[Any], BaseException] = {}
        """Failed appends whose outcome was not read."""

    def wait_until(self, true: Callable[[], bool], deadline: Deadline | None = None) -> bool:
        """Wait for a condition that the loop brings about; whether it became true in time.

        Raises:
            ForkedError: in a process forked from the one that made the loop.
            ConfigurationError: the loop has ended and the condition is not true.
        """
        if not self._thread.closed:
            self._thread.check()
        gate = locked_gate()
        try:
            while True:
                # It queues before it looks, and what it looks at changes before `changed`: no change is missed.
                if gate not in self._gates:
                    self._gates.append(gate)
                if true():
                    return True
                if self._thread.ended:
                    raise closed()
                left_s = LOOK_S if deadline is None else deadline.left_s()
                if left_s <= 0:
                    return False
                gate.acquire(timeout=min(LOOK_S, left_s))
        finally:
            with suppress(ValueError):
                self._gates.remove(gate)

    def changed(self) -> None:
        """On the loop: something has changed that a thread may be waiting for."""
        if self._gates and not self._notifying:
            self._notifying = True
            self._thread.loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._notifying = False
        gates = self._gates
        while gates:
            with suppress(IndexError):  # its thread has just given up waiting
                gates.popleft().release()


class Pending(Generic[T]):
    """An append that was submitted. It gets its outcome once; `result` waits for that."""

    __slots__ = ("_board", "_done", "_error", "_value")

    def __init__(self, board: Board) -> None:
        self._board = board
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether it has its outcome."""
        return self._done

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the outcome and return it, as `append` does.

        Raises:
            CallTimeoutError: no outcome within `timeout_s` seconds; the append goes on.
            The errors of `append`. They then count as read (`Writer.flush`).
        """
        return self.result_by(None if timeout_s is None else Deadline(timeout_s))

    def result_by(self, deadline: Deadline | None) -> T:
        """As `result`."""
        if not self._done and not self._board.wait_until(self.done, deadline):
            assert deadline is not None
            raise CallTimeoutError(
                f"the append has no outcome after {deadline.timeout_s:g} s and goes on, as `error.pending`",
                timeout_s=deadline.timeout_s,
                pending=self,
            )
        if self._error is not None:
            self._board.unread.pop(self, None)
            raise self._error
        return self._value  # type: ignore[return-value]  # settled without error: there is a value

    def settle(self, future: asyncio.Future[T]) -> None:
        """On the loop: take the outcome of the writer's future."""
        if future.cancelled():
            self.fail(AppendAbortedError("the append was cancelled"))
        elif (error := future.exception()) is not None:
            self.fail(error)
        else:
            self._value = future.result()
            self._done = True
            self._board.changed()

    def fail(self, error: BaseException) -> None:
        """On the loop: the append ended with this error, or was never accepted."""
        self._error = self._board.unread[self] = error
        self._done = True
        self._board.changed()
