"""Errors of the simulator itself.

None of these is a LogStoreError: production code may catch those, but must never hide one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from traceback import extract_tb

from ledger.errors import LogStoreError


def is_unexpected(error: BaseException | None) -> bool:
    """Whether production code never means a task to end with it: it is no error of the tree and none of the network.

    A cancelled task and a simulated power cut raise no `Exception`.
    """
    return isinstance(error, Exception) and not isinstance(error, LogStoreError | OSError | EOFError)


def origin_of(error: BaseException) -> str:
    """The innermost place that the exception passed: file, line and function."""
    frames = extract_tb(error.__traceback__)
    if not frames:
        return "nowhere"
    file = "/".join(frames[-1].filename.split("/")[-2:])
    return f"{file}:{frames[-1].lineno} in {frames[-1].name}"


class SimulationError(Exception):
    """The run cannot continue, or its result is not valid."""


class DeadlockError(SimulationError):
    """No event is left and the run has not ended (facts: waiting, one line per task)."""

    def __init__(self, message: str, *, waiting: Sequence[str]) -> None:
        super().__init__("\n".join([message, *waiting]))
        self.waiting = tuple(waiting)


class LimitReachedError(SimulationError):
    """The run exceeded its limit of steps or of virtual time (facts: waiting, steps, virtual_s)."""

    def __init__(self, message: str, *, waiting: Sequence[str], steps: int, virtual_s: float) -> None:
        super().__init__("\n".join([message, *waiting]))
        self.waiting = tuple(waiting)
        self.steps = steps
        self.virtual_s = virtual_s


@dataclass(frozen=True, slots=True)
class Problem:
    """An exception that was not caught: from a callback, or from a task that was not awaited."""

    node: str
    message: str
    error: BaseException | None

    def __str__(self) -> str:
        return (
            f"{self.node}: {self.message}: {self.error!r}" if self.error else f"{self.node}: {self.message}"
        )


class UncaughtProblemsError(SimulationError):
    """The run ended normally, but exceptions were not caught (facts: problems)."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(["exceptions that were not caught:", *map(str, problems)]))
        self.problems = tuple(problems)


class NotSupportedInSimulationError(NotImplementedError):
    """The program used something outside the simulation: a thread, a process or a real socket."""
