"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.mutations.planting import Edit

THREE: dict[str, Any] = {"ensemble": 3, "write": 3, "ack": 2}
SPARES: dict[str, Any] = {**THREE, "bookies": 6}


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


def focused(*faults: str, **fields: Any) -> dict[str, Any]:
    """A short plan with these faults in quick succession and little besides, so that a seed costs little."""
    return {
        "chaos_s": 8.0,
        "fault_every_s": 0.4,
        "append_every_s": 0.05,
        "payload_bytes_max": 10,
        "shrinks": False,
        "other_log": False,
        "faults": faults,
        **fields,
    }
