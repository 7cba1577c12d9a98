"""What is fuzzed: a function that takes any bytes, and the bounds that hold for each input.

A finding is an exception that leaves the function (the target itself expects the errors that are declared), more
CPU time than CPU_S_MAX, or more memory than the target declares for an input of that length.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

CPU_S_MAX = 2.0
"""CPU time of one input. All take less than a millisecond or two; a hang or a loop that is quadratic shows here."""

Run = Callable[[bytes], None]


class TooMuchMemoryError(AssertionError):
    """An input made Python allocate more than the target declares."""


class TooMuchTimeError(AssertionError):
    """An input took more CPU time than CPU_S_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that reads foreign bytes."""

    name: str
    session: Callable[[], AbstractContextManager[Run]]
    """What the inputs of one run share: a storage, an event loop. Most share nothing."""
    corpus: Callable[[], Iterable[bytes]]
    """Inputs to start from."""
    input_bytes_max: int = 2048
    memory_base: int = 96 * 1024
    memory_per_byte: int = 256
    """Bound of what Python allocates at one time for an input: base + per_byte * length."""
    cost: int = 1
    """How much more than others an input takes; the suite then runs fewer."""

    def memory_max(self, data: bytes) -> int:
        return self.memory_base + self.memory_per_byte * len(data)


def plain(run: Run) -> Callable[[], AbstractContextManager[Run]]:
    """The session of a function that keeps nothing."""

    @contextmanager
    def session() -> Iterator[Run]:
        yield run

    return session


def run_measured(target: Target, run: Run, data: bytes) -> None:
    """Run one input and check both bounds. Slower than the bare call by a factor of five or so.

    What an input took only the first time was a cache or an import, and is no finding.
    """
    taken_s, peak = _measured(run, data)
    if taken_s > CPU_S_MAX or peak > target.memory_max(data):
        taken_s, peak = _measured(run, data)
    if taken_s > CPU_S_MAX:
        raise TooMuchTimeError(f"{target.name}: {len(data)} bytes took {taken_s:.2f} s of CPU time")
    if peak > target.memory_max(data):
        raise TooMuchMemoryError(
            f"{target.name}: {len(data)} bytes made it allocate {peak}, {target.memory_max(data)} is the bound"
        )


def _measured(run: Run, data: bytes) -> tuple[float, int]:
    """CPU seconds, and the most bytes that were allocated at one time."""
    tracemalloc.start()
    began = time.process_time()
    try:
        run(data)
        return time.process_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
