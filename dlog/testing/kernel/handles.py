"""What the simulated loop hands out: handles, tasks and futures that cost little and hash by number.

asyncio and programs keep tasks, futures and timers in sets (asyncio.wait returns two of them). By default these
are ordered by memory address; hashed by number, they are iterated in the same order in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar, cast

from dlog.testing.kernel.scheduler import Scheduler

T = TypeVar("T")


class SimulatedHandle(asyncio.Handle):
    """A callback that is due now. The fields of the base class stay unset: filling them costs more than the call."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.callback!r}>"


class SimulatedTimer(asyncio.TimerHandle):
    """A callback due later."""

    __slots__ = ("args", "callback", "context", "due", "loop", "number")

    def __init__(
        self,
        due: float,
        number: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        loop: Scheduler,
    ) -> None:
        self.due = due
        self.number = number
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.loop = loop

    def when(self) -> float:
        return self.due

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.args = ()
            self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self.callback is None

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        return self.due < other.when()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.due:.6f} {self.callback!r}>"


class KernelTimer(SimulatedTimer):
    """One that goes by the time of the simulation, not by the clock of its node."""

    __slots__ = ()


class SimulatedFuture(asyncio.Future[T]):
    """A future that hashes by a number. It gets it when first hashed, which few ever are; a seed decides when."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = _next_number(self)
        return self._number


class SimulatedTask(asyncio.Task[T]):
    """A task that hashes by a number. asyncio hashes each while it makes it."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = _next_number(self)
        return self._number

    def silence(self) -> None:
        """Say nothing when the task goes away unfinished: it belonged to a process that is no more."""
        self._log_destroy_pending = False


def _next_number(future: asyncio.Future[Any]) -> int:
    return cast(Scheduler, future.get_loop()).next_number()
