"""The limits of one simulated run, beyond which it counts as one that never ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlog.testing.errors import LimitReachedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Steps of the loop, and virtual seconds."""

    steps_max: int = 50_000_000
    virtual_s_max: float = 1_000_000.0

    def require(self, steps: int, virtual_s: float, waiting: Callable[[], list[str]]) -> None:
        """Return if the run is within its limits. `waiting` lists its pending tasks, for the error.

        Raises:
            LimitReachedError: it is not.
        """
        if steps >= self.steps_max or virtual_s > self.virtual_s_max:
            raise LimitReachedError(
                f"not finished after {steps} steps and {virtual_s:.3f} s of virtual time "
                f"(limits: {self.steps_max} steps, {self.virtual_s_max} s); waiting tasks:",
                waiting=waiting(),
                steps=steps,
                virtual_s=virtual_s,
            )
