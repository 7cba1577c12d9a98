"""How long an append may wait for its outcome, and what is reported while it waits.

One timer for all writers of a client, and only while an append is pending: with thousands of logs, a timer for each of
them costs more than their appends. Time in which this process was stopped is not counted: its bookies could not answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

LOOK_S = 1.0
FIRST_WARNING_S = 5.0
"""As long as a bookie may take for an answer (`add_timeout_s`): then it is known which ones do not respond."""
_PAUSE_S = 1.0
"""A timer that is later than this shows that this process was stopped."""
_TOGETHER = 0.05
"""Deadlines that are due within this share of `LOOK_S` are checked together."""


class DeadlineClock:
    """The timer of all deadlines of a client: checks each one `LOOK_S` after it was added, once."""

    __slots__ = ("_timer", "_timer_at", "_waiting", "resumed_at")

    def __init__(self) -> None:
        self._waiting: dict[AppendDeadline, float] = {}
        """When each is due, the next one first: all of them wait for the same time."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.resumed_at = -math.inf
        """When this process ran again after it was stopped, in loop time."""

    def add(self, deadline: AppendDeadline) -> None:
        self._waiting[deadline] = asyncio.get_running_loop().time() + LOOK_S
        if self._timer is None:
            self._set_timer()

    def remove(self, deadline: AppendDeadline) -> None:
        self._waiting.pop(deadline, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note_timer(self, now: float, due: float) -> None:
        """A timer that was due at `due` runs now."""
        if now - due > _PAUSE_S:
            self.resumed_at = now

    def _set_timer(self) -> None:
        self._timer_at = next(iter(self._waiting.values()))
        self._timer = asyncio.get_running_loop().call_at(self._timer_at, self._run)

    def _run(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self.note_timer(now, self._timer_at)
        until = now + LOOK_S * _TOGETHER
        try:
            while self._waiting:
                deadline = next(iter(self._waiting))
                if self._waiting[deadline] > until:
                    break
                del self._waiting[deadline]
                deadline.look(now)
        finally:  # one that raises must not keep the others from being checked
            if self._waiting and self._timer is None:
                self._set_timer()


class AppendDeadline:
    """Calls `on_slow` after 5 s, 10 s, 20 s … and `on_overdue` once, when the oldest append waits for `limit_s`."""

    __slots__ = (
        "_clock",
        "_limit_s",
        "_loop",
        "_oldest",
        "_on_overdue",
        "_on_slow",
        "_timer",
        "_warn_after_s",
        "running",
    )

    def __init__(
        self,
        limit_s: float,
        clock: DeadlineClock,
        *,
        oldest: Callable[[], float | None],
        on_slow: Callable[[float], None],
        on_overdue: Callable[[], None],
    ) -> None:
        """`oldest`: when the oldest pending append was accepted, in loop time; None if none is pending."""
        self._limit_s = limit_s
        self._clock = clock
        self._oldest = oldest
        self._on_overdue = on_overdue
        self._on_slow = on_slow
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        """Of its own, if the limit ends before the clock would check."""
        self.running = False
        """Whether it will be checked. A plain attribute: it is read once per entry."""
        self._warn_after_s = FIRST_WARNING_S

    def start(self) -> None:
        """An append was accepted; needed only while not `running`."""
        self._look_in(self._limit_s)

    def stop(self) -> None:
        self.running = False
        self._clock.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, delay_s: float) -> None:
        self.running = True
        if delay_s >= LOOK_S:
            self._clock.add(self)
        else:
            due = self._loop.time() + delay_s
            self._timer = self._loop.call_at(due, self._on_timer, due)

    def _on_timer(self, due: float) -> None:
        self._timer = None
        now = self._loop.time()
        self._clock.note_timer(now, due)
        self.look(now)

    def look(self, now: float) -> None:
        """Called by its clock."""
        self.running = False
        accepted_at = self._oldest()
        if accepted_at is None:
            self._warn_after_s = FIRST_WARNING_S
            return
        waited_s = now - max(accepted_at, self._clock.resumed_at)
        if waited_s >= self._limit_s:
            self._on_overdue()
            return
        if waited_s < FIRST_WARNING_S:
            self._warn_after_s = FIRST_WARNING_S
        elif waited_s >= self._warn_after_s:
            self._warn_after_s *= 2
            self._on_slow(waited_s)
        self._look_in(max(0.001, self._limit_s - waited_s))
