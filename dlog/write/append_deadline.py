"""How long an append may wait for its outcome, and what is reported while it waits.

One timer per writer, and only while an append is pending. Time in which this process was stopped is not counted: its
bookies could not answer.
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


class AppendDeadline:
    """Calls `on_slow` after 5 s, 10 s, 20 s … and `on_overdue` once, when the oldest append waits for `limit_s`."""

    def __init__(
        self,
        limit_s: float,
        *,
        oldest: Callable[[], float | None],
        on_slow: Callable[[float], None],
        on_overdue: Callable[[], None],
    ) -> None:
        """`oldest`: when the oldest pending append was accepted, in loop time; None if none is pending."""
        self._limit_s = limit_s
        self._oldest = oldest
        self._on_slow = on_slow
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._resumed_at = -math.inf
        self._warn_after_s = FIRST_WARNING_S

    @property
    def running(self) -> bool:
        return self._timer is not None

    def start(self) -> None:
        """An append was accepted; needed only while not `running`."""
        self._look_in(min(LOOK_S, self._limit_s))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, delay_s: float) -> None:
        self._due = self._loop.time() + delay_s
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        if now - self._due > _PAUSE_S:
            self._resumed_at = now
        accepted_at = self._oldest()
        if accepted_at is None:
            self._warn_after_s = FIRST_WARNING_S
            return
        waited_s = now - max(accepted_at, self._resumed_at)
        if waited_s >= self._limit_s:
            self._on_overdue()
            return
        if waited_s < FIRST_WARNING_S:
            self._warn_after_s = FIRST_WARNING_S
        elif waited_s >= self._warn_after_s:
            self._warn_after_s *= 2
            self._on_slow(waited_s)
        self._look_in(max(0.001, min(LOOK_S, self._limit_s - waited_s)))
