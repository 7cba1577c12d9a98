"""What `concurrent.futures` needs of a pending append: a lock, a state, waiters and callbacks.

`wait` and `as_completed` take the locks of all their futures, look at the states, and leave a waiter with each.

Invariant: the loop never waits for a lock that a caller's thread may hold. An interrupt inside those functions can
leave a lock locked permanently (dlog/blocking/loop_thread.py), so there is none here: a thread that has taken "the
lock" goes on seeing the state of that moment, and a waiter that it leaves with an undecided append is called once the
append is decided, by the loop or, if it was decided in between, by that thread itself.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from dlog.blocking.deadline import Deadline
from dlog.blocking.loop_thread import LOOK_S, locked_gate

_log = logging.getLogger(__name__)


class Undecided(Protocol):
    """A pending append, as far as its waiters look at it."""

    @property
    def succeeded(self) -> bool: ...

    def done(self) -> bool: ...

    def check_thread(self) -> None: ...


class FutureWaiters:
    """Of one pending append; made when the first is left. Serves as the `_condition` and `_waiters` of a Future."""

    def __init__(self, pending: Undecided) -> None:
        self._pending = pending
        self._seen: dict[int, bool] = {}
        """By the identifier of each thread that holds "the lock": whether the append was decided when it took it."""
        self._waiters: deque[Any] = deque()
        self._callbacks: deque[Callable[[Any], object]] = deque()

    # ---- the lock and the state

    def acquire(self) -> bool:
        self._pending.check_thread()
        self._seen[threading.get_ident()] = self._pending.done()
        return True

    def release(self) -> None:
        self._seen.pop(threading.get_ident(), None)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    @property
    def held(self) -> bool:
        """Whether this thread is inside `wait` or `as_completed`."""
        return threading.get_ident() in self._seen

    def is_decided(self) -> bool:
        """As this thread must see it."""
        return self._seen.get(threading.get_ident(), self._pending.done())

    # ---- what is called once the append is decided

    def append(self, waiter: Any) -> None:
        """Called by the standard library, for each future of a call with the same waiter."""
        if not isinstance(waiter.event, _Event):
            waiter.event = _Event()  # the loop sets it, so it must not wait for a lock either
        if not self.is_decided():
            self._waiters.append(waiter)
            if self._pending.done() and _taken(self._waiters, waiter):
                self._notify(waiter)

    def remove(self, waiter: Any) -> None:
        _taken(self._waiters, waiter)

    def add_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(callback)
        if self._pending.done() and _taken(self._callbacks, callback):
            self._call(callback)

    def on_decided(self) -> None:
        """On the loop: call everything left so far. What is left from now on is called by its thread."""
        with suppress(IndexError):
            while True:
                self._notify(self._waiters.popleft())
        with suppress(IndexError):
            while True:
                self._call(self._callbacks.popleft())

    def _notify(self, waiter: Any) -> None:
        notify = waiter.add_result if self._pending.succeeded else waiter.add_exception
        notify(self._pending)

    def _call(self, callback: Callable[[Any], object]) -> None:
        try:
            callback(self._pending)
        except Exception:  # noqa: BLE001 - as concurrent.futures does
            _log.exception("a callback of %r failed", self._pending)


class _Event:
    """A `threading.Event` whose `set` never waits."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = locked_gate()

    def set(self) -> None:
        self._is_set = True
        with suppress(RuntimeError):  # it is open already
            self._gate.release()

    def clear(self) -> None:
        self._is_set = False
        self._gate.acquire(blocking=False)

    def wait(self, timeout: float | None = None) -> bool:
        deadline = Deadline(timeout)
        while not self._is_set:
            left_s = deadline.left_s()
            if left_s <= 0:
                return False
            self._gate.acquire(timeout=min(LOOK_S, left_s))
        return True


def _taken(among: deque[Any], one: object) -> bool:
    """Whether this call has removed it: then it is the caller's, otherwise the loop has taken it."""
    try:
        among.remove(one)
    except (ValueError, IndexError):  # IndexError: the loop is taking all of them
        return False
    return True
