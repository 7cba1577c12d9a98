"""What the clocks of one host show, given the time of the simulation."""

from __future__ import annotations

from random import Random

BEGIN_US = 1_700_000_000_000_000
"""Wall clock, in microseconds since 1970, at loop time zero."""
_SKEW_S_MAX = 2.0
"""By how much a wall clock may be wrong before anything jumps."""
_UP_S_MAX = 1_000_000.0


class HostClock:
    """A wall clock that is a little wrong and may jump, and a clock of the time since the host started."""

    def __init__(self, now: float, chance: Random) -> None:
        self._wrong_us = int(chance.uniform(-_SKEW_S_MAX, _SKEW_S_MAX) * 1e6)
        self._started = now - chance.uniform(0.0, _UP_S_MAX)

    def wall_us(self, now: float) -> int:
        return BEGIN_US + int(now * 1e6) + self._wrong_us

    def up_s(self, now: float) -> float:
        return now - self._started

    def jump(self, by_s: float) -> None:
        """Set the wall clock forward, or back."""
        self._wrong_us += round(by_s * 1e6)

    def restarted(self, now: float) -> None:
        """The host starts anew. Its wall clock is kept by a battery."""
        self._started = now
