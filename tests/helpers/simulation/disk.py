"""What tests of the simulated machine share: chance by purpose, notes that can be counted, a disk."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Coroutine
from itertools import count
from random import Random
from typing import Any, TypeVar

from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.image import DiskImage
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.notes import Streams

T = TypeVar("T")

QUICK = DiskTiming(wake_s=(0.0, 0.0), read_s=(0.0, 0.0), sync_s=(0.0, 0.0), write_bytes_per_s=1e15)
"""Costs nothing, for tests on a loop with a real clock."""


def streams(seed: int = 1) -> Streams:
    kept: dict[str, Random] = {}
    return lambda purpose: kept.setdefault(purpose, Random(f"{seed} {purpose}"))


class CountedNotes:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []

    def note(self, kind: str, node: str, text: str) -> None:
        self.lines.append((kind, node, text))

    @property
    def counts(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self.lines)


class CountedEnvironment:
    """Identities by number; clocks stand still."""

    def __init__(self, name: str) -> None:
        self.rng = Random(name)
        self._name = name
        self._numbers = count(1)

    def wall_us(self) -> int:
        return 0

    def boot_s(self) -> float:
        return 0.0

    def token(self) -> int:
        return next(self._numbers)

    def new_uuid(self) -> str:
        return f"{self._name}-{next(self._numbers)}".ljust(36, "-")

    def host_name(self) -> str:
        return self._name

    def process_id(self) -> int:
        return 1


def new_disk(
    seed: int = 1,
    notes: CountedNotes | None = None,
    *,
    image: DiskImage | None = None,
    timing: DiskTiming = QUICK,
) -> SimulatedDisk:
    return SimulatedDisk(streams(seed), notes or CountedNotes(), "b1", timing=timing, image=image)


class _NoWaiting(selectors.SelectSelector):
    """Lets the time that somebody would wait be over at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits and nothing will ever happen"
        self.now += max(0.0, timeout)
        return []  # neither sockets nor threads: asking the system would take a third of the time


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with a clock that jumps to the next timer."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on a loop whose time is virtual."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
