"""Readers that wait until a ledger's LAC has passed what they know (docs/bookkeeper.md#long-poll).

A waiter is one small object and one loop timer, no task. It is woken once: by a LAC beyond its own, by the
first fence of the ledger, or by its time running out; what is answered is decided when it wakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from ledger.buggify import buggify


class Wake(Enum):
    """Why a waiter woke."""

    ADVANCED = auto()
    FENCED = auto()
    TIMED_OUT = auto()


class Waiter:
    """One waiting long poll."""

    __slots__ = ("beyond", "ledger_id", "timer", "wake")

    def __init__(self, ledger_id: int, beyond: int, wake: Callable[[Wake], None]) -> None:
        self.ledger_id = ledger_id
        self.beyond = beyond
        self.wake = wake
        self.timer: asyncio.TimerHandle | None = None


class LacWatchers:
    """All waiters of a bookie, by ledger."""

    def __init__(self, waiters_max: int, wait_s_max: float) -> None:
        self._waiters_max = waiters_max
        self._wait_s_max = wait_s_max
        self._by_ledger: dict[int, dict[Waiter, None]] = {}
        self._count = 0

    @property
    def full(self) -> bool:
        return self._count >= self._waiters_max

    def __len__(self) -> int:
        return self._count

    def wait(self, ledger_id: int, beyond: int, timeout_s: float, wake: Callable[[Wake], None]) -> Waiter:
        """Call `wake` once, later, on the loop, unless the waiter is cancelled before.

        A very long wait ends early: the response is that nothing is new, and the reader asks again.
        """
        waiter = Waiter(ledger_id, beyond, wake)
        loop = asyncio.get_running_loop()
        delay_s = min(timeout_s, self._wait_s_max) * (buggify("bookie.short-poll") or 1.0)
        waiter.timer = loop.call_later(delay_s, self._finish, waiter, Wake.TIMED_OUT)
        self._by_ledger.setdefault(ledger_id, {})[waiter] = None
        self._count += 1
        return waiter

    def cancel(self, waiter: Waiter) -> None:
        """Remove a waiter whose connection is closed; one that has woken is ignored."""
        self._remove(waiter)

    def advanced(self, ledger_id: int, lac: int) -> None:
        """The ledger's LAC is `lac` now. Called for every run of adds, so the common case is one look-up."""
        waiters = self._by_ledger.get(ledger_id)
        if waiters is None:
            return
        for waiter in [each for each in waiters if lac > each.beyond]:
            self._wake_soon(waiter, Wake.ADVANCED)

    def fenced(self, ledger_id: int) -> None:
        """The ledger was fenced for the first time: its readers should look at the metadata."""
        for waiter in list(self._by_ledger.get(ledger_id, ())):
            self._wake_soon(waiter, Wake.FENCED)

    def _wake_soon(self, waiter: Waiter, why: Wake) -> None:
        # Not from here: the caller is in the middle of storing, and a woken waiter reads.
        wake = self._remove(waiter)
        if wake is not None:
            asyncio.get_running_loop().call_soon(wake, why)

    def _finish(self, waiter: Waiter, why: Wake) -> None:
        wake = self._remove(waiter)
        if wake is not None:
            wake(why)

    def _remove(self, waiter: Waiter) -> Callable[[Wake], None] | None:
        """What it was to call, if it still waits. It lets go of that, which may know it: no cycle is left."""
        waiters = self._by_ledger.get(waiter.ledger_id)
        if waiters is None or waiter not in waiters:
            return None
        del waiters[waiter]
        if not waiters:
            del self._by_ledger[waiter.ledger_id]
        self._count -= 1
        if waiter.timer is not None:
            waiter.timer.cancel()
        wake = waiter.wake
        del waiter.wake
        return wake
