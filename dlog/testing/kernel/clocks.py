"""What the clocks of one host show, given the time of the simulation."""

from __future__ import annotations

from random import Random

BEGIN_US = 1_700_000_000_000_000
"""Wall clock, in microseconds since 1970, at loop time zero."""
_SKEW_S_MAX = 2.0
"""By how much a wall clock may be wrong before anything jumps."""
_UP_S_MAX = 1_000_000.0


class HostClock:
    """A wall clock that is a little wrong and may jump, and a monotonic clock. Both run at the host's rate.

    `now` is the time of the simulation everywhere; `local` is what the monotonic clock shows then.
    """

    def __init__(self, now: float, chance: Random) -> None:
        self.rate = 1.0
        """Seconds that the clocks of this host count in a second."""
        self._changed = (0.0, 0.0)
        """The time at which the rate was last set, and what the monotonic clock showed then."""
        self._wrong_us = int(chance.uniform(-_SKEW_S_MAX, _SKEW_S_MAX) * 1e6)
        self._started = now - chance.uniform(0.0, _UP_S_MAX)

    def local(self, now: float) -> float:
        at, shown = self._changed
        return shown + (now - at) * self.rate

    def shows_at(self, local: float) -> float:
        """The time at which the monotonic clock shows this."""
        at, shown = self._changed
        return at + (local - shown) / self.rate

    def run_at(self, rate: float, now: float) -> None:
        """A fault: from now on the clocks of this host run at another rate."""
        self._changed, self.rate = (now, self.local(now)), rate

    def wall_us(self, now: float) -> int:
        return BEGIN_US + int(self.local(now) * 1e6) + self._wrong_us

    def up_s(self, now: float) -> float:
        return self.local(now) - self._started

    def jump(self, by_s: float) -> None:
        """Set the wall clock forward, or back."""
        self._wrong_us += round(by_s * 1e6)

    def restarted(self, now: float) -> None:
        """The host starts anew. Its wall clock is kept by a battery."""
        self._started = self.local(now)
