"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.mutations.planting import Edit


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mistake that somebody could make, and the rule that it breaks."""

    name: str
    rule: str
    """What must hold, and what goes wrong without it."""
    edits: tuple[Edit, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the swarm's plan without which it can hardly show; the rest is up to the seed."""
    profile: str = "chaos"
    given: tuple[Edit, ...] = ()
    """Circumstances that the swarm does not bring about by itself, and under which sound code is safe."""
