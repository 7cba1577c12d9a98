"""Short tasks and timers that end with their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ledger.errors import LogStoreError
from ledger.tasks import start_task


class TaskScope:
    """The tasks and timers of an owner. `on_fault` gets the error of a task that failed; nothing is swallowed.

    So it does if a task is cancelled by others, as by a program that cancels all tasks of its loop before it closes its
    clients: the owner waits for an event that would not come any more.
    """

    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._stopped = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call after `delay_s` unless the owner has stopped; the handle may be cancelled."""

        known: list[asyncio.TimerHandle] = []

        def run() -> None:
            self._timers.pop(known.pop(), None)  # taken out, since the timer holds this function
            call()

        timer = self._loop.call_later(delay_s, run)
        known.append(timer)
        self._timers[timer] = None
        return timer

    def cancel(self, timer: asyncio.TimerHandle) -> None:
        self._timers.pop(timer, None)
        timer.cancel()

    def stop(self) -> None:
        """Cancel everything but the calling task."""
        self._stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            error = task.exception()
        elif not self._stopped:
            error = LogStoreError("a task of its writer was cancelled by this program")
        else:
            error = None
        if error is not None:
            self._on_fault(error)
