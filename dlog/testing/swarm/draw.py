"""What plans are drawn with."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Draw:
    chance: Random

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def some(self, names: tuple[str, ...]) -> list[str]:
        """Each with even chance."""
        return [name for name in names if self.maybe(0.5)]
