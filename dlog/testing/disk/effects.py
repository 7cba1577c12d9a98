"""The order in which a simulated disk changes, and the place in it where the machine stops.

Invariant: an effect is announced before it happens and happens whole or, if the machine stops there, not at all. So a
crash at effect n leaves the disk as effects 1 to n-1 made it. What a power cut leaves of unsynced effects is
another question: see image.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlog.testing.kernel.notes import Notes

_KEPT_MAX = 1000


class SimulatedCrash(BaseException):
    """The machine stopped in the middle of a call. Not an Exception: no handler may catch it."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One change of the disk.

    Kinds: create, write, allocate, truncate, sync, rename, remove, mkdir, dirsync, kv.create, kv.write, kv.sync.
    """

    number: int
    kind: str
    path: Path
    text: str = ""


class Effects:
    """Counts, notes and keeps the last effects of one disk, over all lives of its machine."""

    def __init__(self, notes: Notes, node: str) -> None:
        self._notes = notes
        self._node = node
        self.count = 0
        self.recent: deque[Effect] = deque(maxlen=_KEPT_MAX)
        self.crash_at: int | None = None
        self.before_each: Callable[[Effect], None] | None = None
        """Sees each effect before it happens, while the disk can still show what a crash here would leave."""

    def announce(self, kind: str, path: Path, text: str = "") -> bool:
        """Whether it is to happen; False: the machine stops here."""
        effect = Effect(self.count + 1, kind, path, text)
        if self.before_each is not None:
            self.before_each(effect)
        if self.crash_at is not None and effect.number >= self.crash_at:
            self.crash_at = None
            self._notes.note("fault.crash_at_effect", self._node, f"{effect.number} {kind} {path} {text}")
            return False
        self.count = effect.number
        self.recent.append(effect)
        self._notes.note(f"disk.{kind}", self._node, f"{path} {text}")
        return True
