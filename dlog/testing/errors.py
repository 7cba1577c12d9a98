"""What ends a simulation, and what cannot be done in one.

None of these is a LogStoreError: those are the world's faults, which production code is right to catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SimulationError(Exception):
    """The run cannot go on, or must not be believed."""


class DeadlockError(SimulationError):
    """Nothing can ever happen any more, and the run is not done (facts: waiting, one line for each task)."""

    def __init__(self, message: str, *, waiting: Sequence[str]) -> None:
        super().__init__("\n".join([message, *waiting]))
        self.waiting = tuple(waiting)


class LimitReachedError(SimulationError):
    """The run took more steps or more virtual time than allowed (facts: waiting, steps, virtual_s)."""

    def __init__(self, message: str, *, waiting: Sequence[str], steps: int, virtual_s: float) -> None:
        super().__init__("\n".join([message, *waiting]))
        self.waiting = tuple(waiting)
        self.steps = steps
        self.virtual_s = virtual_s


@dataclass(frozen=True, slots=True)
class Problem:
    """An exception that nobody caught: out of a callback, or of a task that nobody asked."""

    node: str
    message: str
    error: BaseException | None

    def __str__(self) -> str:
        return (
            f"{self.node}: {self.message}: {self.error!r}" if self.error else f"{self.node}: {self.message}"
        )


class UncaughtProblemsError(SimulationError):
    """The run ended well, but exceptions were lost on the way (facts: problems)."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(["exceptions that nobody caught:", *map(str, problems)]))
        self.problems = tuple(problems)


class NotSupportedInSimulationError(NotImplementedError):
    """The program asked for something that would leave the simulation: a thread, a process, a real socket."""
