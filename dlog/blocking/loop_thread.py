"""The one place that owns a thread: an event loop for callers that have none.

Invariant: everything of dlog runs on one loop; the blocking API only passes work to it and waits. A caller that is
interrupted (Ctrl-C) cancels what it waited for and gets the interrupt once that has ended.

Invariant: an interrupt may strike wherever CPython checks for signals: after each call into C, at the beginning of
each function, where a loop jumps back. So callers never hold a lock of `threading.Condition` or
`concurrent.futures` (an interrupt inside their `__enter__` leaves it locked permanently), and what is fetched for a
caller is kept on the loop, where no signal is handled, until it is returned.

A process forked from the one that created the loop has no such thread, and at the end of a program, after the
functions of `atexit`, it has been stopped wherever it was: there every call is refused, and closing does nothing.

Invariant: at the end of a program the thread waits for a lock. One that is in uvloop while Python ends can crash the
process. So a function of `atexit` has all threads leave their loops until a later one of them calls the client.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet

from dlog.blocking.deadline import Deadline
from dlog.errors import CallTimeoutError, ForkedError
from ledger.errors import ConfigurationError, LogStoreError
from ledger.whole_loop import whole

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S = 0.5
"""Longest delay of an interrupt. One that arrives between the interpreter's last check and the wait for a lock wakes no
thread, so no wait is longer than this.
"""

_REST_S = 1.0
"""How long the end of a program waits for what is running on the loop, as a program's own callback."""

_threads: WeakSet[LoopThread] = WeakSet()


class LoopThread:
    """A running loop in a daemon thread. `close` ends both."""

    def __init__(self, name: str, *, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._loop = whole(new_loop or fastest_loop)
        self._made_in = os.getpid()
        self._closed = False
        self._stopping = False
        self._last: asyncio.Task[object] | None = None
        self.usable = True
        """False once closed, and in a forked process. A plain attribute: it is read once per message."""
        self.ended = False
        """The loop has ended: what it has not done stays undone."""
        self.forked = False
        """Whether this process inherited it by a fork, and with it nothing that would end it."""
        self._end = locked_gate()
        self._rests = False
        self._at_rest, self._go_on = locked_gate(), locked_gate()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        _threads.add(self)
        try:
            self._thread.start()
        except BaseException:
            self.post(self._stop)  # should it have begun
            raise

    # ---- calls

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the coroutine function on the loop; return or raise its outcome.

        Raises:
            ForkedError: in a process forked from the one that created the loop.
            ConfigurationError: the loop was closed, or this is its own thread.
        """
        return self.run_within(None, "", function, *args, **kwargs)

    def run_within(
        self,
        timeout_s: float | None,
        what: str,
        function: Callable[P, Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """As `run`. After `timeout_s` seconds the call, named `what`, is cancelled; it has ended on return.

        Raises:
            CallTimeoutError: it was cancelled.
            ConfigurationError: `timeout_s` is not a number of 0 or more.
            The errors of `run`.
        """
        self.check()
        deadline = Deadline(timeout_s)
        running: _Running[T] = _Running(self, lambda: function(*args, **kwargs))
        try:
            self.post(running.start)
            late = not running.wait(deadline)
            if late:
                self.post(running.cancel)
                running.wait()
        except BaseException:  # Ctrl-C, or what the handler of another signal raises
            with suppress(ConfigurationError):  # closed from elsewhere, and so ended
                self.post(running.cancel)
                running.wait()
            raise
        if late and running.cancelled:
            raise CallTimeoutError(
                f"{what} did not end within {timeout_s:g} s: it may have happened, or may still happen",
                timeout_s=timeout_s,
            )
        return running.result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop; return or raise its outcome. Raises as `run`."""
        if threading.current_thread() is self._thread:
            return function()

        async def called() -> T:
            return function()

        return self.run(called)

    def post(self, callback: Callable[[], object]) -> None:
        """Have the loop call it, without waiting. ConfigurationError if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError as error:  # the loop is closed
            raise closed() from error
        self.resume()

    def check(self) -> None:
        """Refuse a call that could only hang. Raises as `run`."""
        if not self.usable:
            raise self.refusal()
        self.check_caller()

    @contextmanager
    def unless_closed(self) -> Iterator[None]:
        """For closing something: nothing is left to do if another thread has closed the client first."""
        try:
            yield
        except ConfigurationError:
            if not self._closed:
                raise

    def check_caller(self) -> None:
        """Refuse a wait for the loop that could not end: in its own thread, or once no thread runs it any more.

        It may be closing already.
        """
        if sys.is_finalizing():
            raise ConfigurationError(
                "the program is ending, and the thread of this client has ended already: close it before, or use 'with'"
            )
        if threading.current_thread() is self._thread:
            raise ConfigurationError("the blocking API was called from its own loop: use dlog.aio there")

    def refusal(self) -> LogStoreError:
        """Why it is not usable."""
        if not self.forked:
            return closed()
        return ForkedError(
            f"this client was opened in process {self._made_in} and cannot be used in process {os.getpid()}, which was "
            "forked from it: connect again after the fork",
            made_in=self._made_in,
        )

    # ---- facts

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def lost(self) -> bool:
        """Whether no thread runs the loop, although nothing has ended it: in a forked process, and at the end of the
        program, when generators are closed and `__del__` is called of what is left.
        """
        return self.forked or sys.is_finalizing()

    # ---- life

    def close(self) -> None:
        """Cancel what still runs, end the loop and its thread. A second call does nothing.

        Raises:
            ConfigurationError: this is the loop's own thread.
        """
        if self.lost:
            return
        self.check_caller()
        self._closed, self.usable = True, False
        with suppress(ConfigurationError):
            self.post(self._stop)
        while not self.ended:
            self.resume()
            if self._end.acquire(timeout=LOOK_S):
                self._end.release()  # for other threads that wait
        self._thread.join()

    def rest(self) -> None:
        """Leave the loop until there is a call again; on return the thread has, if what was running ended in time."""
        if not (self.lost or self.ended):
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._pause)
            self._at_rest.acquire(timeout=_REST_S)

    def resume(self) -> None:
        """Go on after a rest. A caller that waits calls this again and again: the rest may have begun since."""
        if self._rests:
            self._rests = False
            with suppress(RuntimeError):  # another caller has released it
                self._go_on.release()

    def end_after(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """As `close` after the coroutine function has returned or raised; waits for neither. From any thread."""
        self._closed, self.usable = True, False

        def begin() -> None:
            self._last = self._loop.create_task(last())
            self._last.add_done_callback(ended)

        def ended(task: asyncio.Task[object]) -> None:
            if not task.cancelled():
                task.exception()  # retrieved: there is no caller
            self._stop()

        with suppress(ConfigurationError):
            self.post(begin)

    def _pause(self) -> None:
        if not self._stopping:
            self._loop.stop()

    def _stop(self) -> None:
        # Once: a second stop would end the clean-up below.
        if not self._stopping:
            self._stopping = True
            self._loop.stop()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            while not self._stopping:
                self._rests = True
                self._at_rest.release()
                self._go_on.acquire()
                self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            try:
                self._loop.close()
            finally:
                self.ended = True
                self._end.release()
                with suppress(RuntimeError):  # nothing waits for a rest any more
                    self._at_rest.release()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def locked_gate() -> threading.Lock:
    """A lock in locked state; another thread releases it, once."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def closed() -> ConfigurationError:
    return ConfigurationError("this client is closed: connect again")


class _Running(Generic[T]):
    """A task on the loop, and its outcome for one waiting thread, once the task has ended."""

    def __init__(self, thread: LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._thread = thread
        self._work = work
        self._gate = locked_gate()
        self._task: asyncio.Task[T] | None = None
        self._ended = False
        self.cancelled = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def wait(self, deadline: Deadline | None = None) -> bool:
        """Until the task has ended; whether it has in time. ConfigurationError if the loop ends without it."""
        while not self._ended:
            left_s = LOOK_S if deadline is None else deadline.left_s()
            if left_s <= 0:
                return False
            self._gate.acquire(timeout=min(LOOK_S, left_s))
            self._thread.resume()
            if self._thread.ended and not self._ended:
                raise closed()
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # ended without error: there is a value

    # ---- on the loop

    def start(self) -> None:
        self._task = self._thread.loop.create_task(self._work())
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self._ended:  # the interrupt came before it was posted
            self._end(ConfigurationError("the call was cancelled before it began"))

    def _done(self, task: asyncio.Task[T]) -> None:
        self.cancelled = task.cancelled()
        if self.cancelled:
            self._end(ConfigurationError("the client was closed before the call ended: connect again"))
        elif (error := task.exception()) is not None:
            self._end(error)
        else:
            self._value = task.result()
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self._error, self._ended = error, True
        self._gate.release()


def fastest_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _after_fork() -> None:
    for thread in list(_threads):
        thread.usable = False
        thread.forked = not thread.ended  # also one that the parent was closing


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _rest() -> None:
    for thread in list(_threads):
        thread.rest()
