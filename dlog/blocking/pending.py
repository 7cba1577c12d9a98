"""The outcome of an append for a blocking caller, and where threads wait for what the loop does.

Invariant: no lock is held while a thread waits or is interrupted, so Ctrl-C at any moment leaves the loop and other
threads undisturbed (dlog/blocking/loop_thread.py says why `threading.Condition` is not used).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dlog.blocking.deadline import Deadline
from dlog.blocking.future_waiters import FutureWaiters
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
        self.check_thread()
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
                self._thread.resume()
                gate.acquire(timeout=min(LOOK_S, left_s))
        finally:
            with suppress(ValueError):
                self._gates.remove(gate)

    def check_thread(self) -> None:
        """Refuse a wait that would not end. Raises as `wait_until`."""
        self._thread.resume()
        if self._thread.closed and not self._thread.forked:
            self._thread.check_caller()
        else:
            self._thread.check()

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


class Pending(Future[T]):
    """An append that was submitted: a `concurrent.futures.Future`, also for `wait`, `as_completed` and callbacks.

    It gets its outcome once. It cannot be cancelled: what was submitted keeps its place in the log's order, so `cancel`
    returns False, and `running` is True until the outcome is there.
    """

    __slots__ = ("_board", "_done", "_error", "_value")

    _waiters_made: FutureWaiters | None = None
    """Of few appends, so it has no slot; the attributes that a Future has are made from it and the slots."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._done = False
        self._error: BaseException | None = None
        self._value: T  # once it is decided without error

    def __repr__(self) -> str:
        outcome = "undecided" if not self._done else repr(self._value if self.succeeded else self._error)
        return f"<Pending {outcome}>"

    # An error with a pending append must get to another process, or its caller takes it for an error of pickling. The
    # append itself stays here, as None there; and it is one thing, however often the error is copied.

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # ---- callers' threads

    def done(self) -> bool:
        """Whether it has its outcome."""
        return self._done

    def running(self) -> bool:
        """Whether it has no outcome yet."""
        return not self._done

    def cancel(self) -> bool:
        """False: what was submitted cannot be taken back."""
        return False

    def cancelled(self) -> bool:
        """False."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """Wait for the outcome and return it, as `append` does.

        Raises:
            CallTimeoutError: no outcome within `timeout` seconds; the append goes on.
            ConfigurationError: `timeout` is not a number of 0 or more.
            The errors of `append`. They then count as read (`Writer.flush`).
        """
        return self.result_by(None if timeout is None else Deadline(timeout, "timeout"))

    def result_by(self, deadline: Deadline | None) -> T:
        """As `result`."""
        self._wait(deadline)
        if self._error is not None:
            self._board.unread.pop(self, None)
            raise self._error
        return self._value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome and return its error, which then counts as read (`Writer.flush`); None if it has none.

        Raises:
            CallTimeoutError: no outcome within `timeout` seconds; the append goes on.
            ConfigurationError: `timeout` is not a number of 0 or more.
        """
        self._wait(None if timeout is None else Deadline(timeout, "timeout"))
        # `concurrent.futures.wait` only looks for errors; its caller has not seen them yet.
        if self._waiters_made is None or not self._waiters_made.held:
            self._board.unread.pop(self, None)
        return self._error

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn` called with this append once it has its outcome; immediately if it has.

        It is called on the client's background thread and must not block; its errors are logged.
        """
        self._watched().add_callback(fn)

    def _wait(self, deadline: Deadline | None) -> None:
        if not self._done and not self._board.wait_until(self.done, deadline):
            assert deadline is not None
            raise CallTimeoutError(
                f"the append has no outcome after {deadline.timeout_s:g} s and continues, as `error.pending`",
                timeout_s=deadline.timeout_s,
                pending=self,
            )

    # ---- what `concurrent.futures` looks at

    def _watched(self) -> FutureWaiters:
        # In one step: two threads must not make two.
        return self._waiters_made or self.__dict__.setdefault("_waiters_made", FutureWaiters(self))

    if not TYPE_CHECKING:  # to a type checker they are what a Future has
        _condition = _waiters = property(_watched)

        @property
        def _state(self):
            return "FINISHED" if self._watched().is_decided() else "RUNNING"

    @property
    def succeeded(self) -> bool:
        """Whether its outcome is no error."""
        return self._done and self._error is None

    def check_thread(self) -> None:
        """Refuse a wait that would not end: in a forked process, or on the loop."""
        if not self._done:
            self._board.check_thread()

    # ---- the loop

    def settle(self, future: asyncio.Future[T]) -> None:
        """Take the outcome of the writer's future."""
        if future.cancelled():
            self.fail(AppendAbortedError("the append was cancelled"))
        elif (error := future.exception()) is not None:
            self.fail(error)
        else:
            self._value = future.result()
            self._decided()

    def fail(self, error: BaseException) -> None:
        """The append ended with this error, or was never accepted."""
        self._error = self._board.unread[self] = error
        self._decided()

    def _decided(self) -> None:
        # Before it looks for waiters: a thread that leaves one looks at `_done` afterwards.
        self._done = True
        if self._waiters_made is not None:
            self._waiters_made.on_decided()
        self._board.changed()

    def set_result(self, result: T) -> None:
        """Refused: only the log decides."""
        raise InvalidStateError("the outcome of an append comes from the log")

    def set_exception(self, exception: BaseException | None) -> None:
        """Refused: only the log decides."""
        raise InvalidStateError("the outcome of an append comes from the log")
