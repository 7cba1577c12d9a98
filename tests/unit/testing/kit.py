"""What tests of the simulated machine share: chance by purpose, notes that can be counted, a disk."""

from __future__ import annotations

from collections import Counter
from random import Random

from dlog.testing.disk import SimulatedDisk
from dlog.testing.disk_image import DiskImage
from dlog.testing.disk_timing import DiskTiming
from dlog.testing.notes import Streams

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


def new_disk(
    seed: int = 1,
    notes: CountedNotes | None = None,
    *,
    image: DiskImage | None = None,
    timing: DiskTiming = QUICK,
) -> SimulatedDisk:
    return SimulatedDisk(streams(seed), notes or CountedNotes(), "b1", timing=timing, image=image)
