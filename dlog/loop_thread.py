"""The one place that owns a thread: an event loop of its own, for callers who have none.

Law: everything of dlog runs on one loop; the blocking face only hands coroutines to it and waits. A caller who is
interrupted (Ctrl-C) cancels what it waited for and gets the interrupt once that has ended, so nothing goes on
behind its back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from ledger.errors import ConfigurationError

T = TypeVar("T")

LOOK_S = 0.5
"""How long an interrupt may go unheard."""


class LoopThread:
    """A running loop in a daemon thread. `close` ends both."""

    def __init__(self, name: str, *, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._loop = (new_loop or fastest_loop)()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end on the loop, return or raise what it does."""
        self._check(coroutine)
        running = _Running(self._loop, coroutine)
        try:
            return result_of(running.outcome)
        except KeyboardInterrupt:
            running.cancel()
            wait((running.outcome,))
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that must run on the loop, return or raise what it does."""
        if threading.current_thread() is self._thread:
            return function()

        async def called() -> T:
            return function()

        return self.run(called())

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it on the loop and do not wait for it."""
        self._check(coroutine)
        _Running(self._loop, coroutine)

    def close(self) -> None:
        """Cancel what still runs, end the loop and its thread. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def closed(self) -> bool:
        return self._closed

    def _check(self, coroutine: Coroutine[Any, Any, T]) -> None:
        reason = None
        if self._closed:
            reason = "this client is closed: connect again"
        elif threading.current_thread() is self._thread:
            reason = "the blocking face was called from its own loop: use dlog.aio there"
        if reason is not None:
            coroutine.close()
            raise ConfigurationError(reason)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def result_of(future: Future[T]) -> T:
    """What it comes to, waited for so that Ctrl-C is always heard.

    A signal that arrives between the interpreter's last look and the wait for the lock wakes nobody: its handler
    runs when the wait ends. So no wait is long.
    """
    while True:
        try:
            return future.result(LOOK_S)
        except TimeoutError:
            if future.done():  # it may have come to a TimeoutError of its own
                return future.result()


class _Running(Generic[T]):
    """A task on the loop, and its outcome for another thread. The outcome is there when the task has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._start, coroutine)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(ConfigurationError("the client was closed meanwhile"))
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def fastest_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
