"""What a simulated disk does wrong, by chance or when told; each time noted as `fault.<kind>`.

By chance, for each operation: `FaultRates`. When told: `DiskFaults.arm`. What befalls bytes that lie still (bit
rot, a lost file, a damaged index) are methods of SimulatedDisk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from dlog.testing.notes import Notes

FaultKind = Literal[
    "read_error", "write_error", "sync_error", "short_write", "misdirected_write", "slow_sync"
]
"""The first three are I/O errors: the caller gets DiskFailedError.

A write error leaves a part of the write behind. After a sync error some of the unsynced bytes are on the disk,
and the others never will be, although they may still be read and a later sync succeeds. A short write and a
misdirected one are not seen by the caller: the file twin goes on with the rest as SystemFile's retry loop does,
with one more effect in between where a crash can fall; a misdirected write lands elsewhere in the file.
"""


@dataclass(slots=True, kw_only=True)
class FaultRates:
    """How likely each operation suffers, from 0 to 1. May be changed while the simulation runs."""

    read_error: float = 0.0
    write_error: float = 0.0
    sync_error: float = 0.0
    short_write: float = 0.0
    misdirected_write: float = 0.0
    slow_sync: float = 0.0


@dataclass(slots=True)
class _Armed:
    kind: FaultKind
    part: str
    left: int


class DiskFaults:
    """Decides for each operation. Errors befall files and index stores alike, the other kinds only files."""

    def __init__(self, chance: Random, notes: Notes, node: str) -> None:
        self.chance = chance
        self.rates = FaultRates()
        self._notes = notes
        self._node = node
        self._armed: list[_Armed] = []

    def arm(self, kind: FaultKind, part: str = "", *, number: int = 1) -> None:
        """The `number`-th operation from now on that `kind` can befall, on a path that contains `part`, suffers it."""
        self._armed.append(_Armed(kind, part, number))

    def strikes(self, kind: FaultKind, path: Path) -> bool:
        """Whether this operation suffers the fault; noted if so."""
        hit = self._armed_strikes(kind, path)
        rate: float = getattr(self.rates, kind)
        # No draw without a rate: faults that are off do not shift the others.
        if rate and self.chance.random() < rate:
            hit = True
        if hit:
            self.note(kind, str(path))
        return hit

    def _armed_strikes(self, kind: FaultKind, path: Path) -> bool:
        hit = False
        for armed in self._armed:
            if armed.kind == kind and armed.part in str(path):
                armed.left -= 1
                hit = hit or armed.left == 0
        if hit:
            self._armed = [armed for armed in self._armed if armed.left > 0]
        return hit

    def note(self, kind: str, text: str) -> None:
        self._notes.note(f"fault.{kind}", self._node, text)
