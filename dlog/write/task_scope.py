"""Short tasks and timers that end with their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ledger.tasks import start_task


class TaskScope:
    """The tasks and timers of an owner. `on_fault` gets the error of a task that failed; nothing is swallowed."""

    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timers: dict[asyncio.TimerHandle, None] = {}

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
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_fault(error)
