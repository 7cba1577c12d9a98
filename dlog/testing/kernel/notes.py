"""What the parts of a simulated machine ask of their surroundings: a place to note things, chance, spans of time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

Streams = Callable[[str], Random]
"""The source of chance for a purpose; the same object for the same purpose. See `seeds.Seeds.stream`."""

Span = tuple[float, float]
"""Shortest and longest duration, in seconds."""


class Notes(Protocol):
    """Where everything that happens is noted, in order. See `trace.Trace`."""

    def note(self, kind: str, node: str, text: str) -> None:
        """Faults are counted under kinds that begin with `fault.`."""


class NoNotes:
    """Discards every note."""

    def note(self, kind: str, node: str, text: str) -> None:
        pass
