"""How long a simulated disk takes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dlog.testing.kernel.notes import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTiming:
    """The defaults are those of a quick disk; everything is drawn evenly from its span of seconds."""

    wake_s: Span = (5e-6, 300e-6)
    """From handing over a job to its begin in a worker that was idle."""
    read_s: Span = (10e-6, 200e-6)
    sync_s: Span = (50e-6, 2e-3)
    slow_sync_s: Span = (0.1, 20.0)
    """What the fault `slow_sync` takes: a disk that others are busy on, or one about to fail."""
    write_bytes_per_s: float = 500e6
    prompt: float = 0.0
    """Probability that an idle worker carries out a whole job before `submit` returns, as a thread may."""


class DiskClock:
    """Adds up what the running job costs. The job itself runs at one instant; its end is reported later."""

    def __init__(self, timing: DiskTiming, chance: Random) -> None:
        self.timing = timing
        self._chance = chance
        self._spent_s = 0.0

    def draw(self, span: Span) -> float:
        return self._chance.uniform(*span)

    def is_prompt(self) -> bool:
        return self.timing.prompt > 0 and self._chance.random() < self.timing.prompt

    def spend(self, span: Span) -> None:
        self._spent_s += self.draw(span)

    def spend_on_bytes(self, count: int) -> None:
        self._spent_s += count / self.timing.write_bytes_per_s

    def take(self) -> float:
        """What was spent since the last call, in seconds."""
        spent, self._spent_s = self._spent_s, 0.0
        return spent
