"""All planted bugs, by name."""

from __future__ import annotations

from tests.simulation.mutations import (
    ensemble_changes,
    fences,
    ledger_recovery,
    quorums,
    readers,
    rotations,
    storage,
    takeovers,
)
from tests.simulation.mutations.mutation import Mutation

UNPROVED: tuple[str, ...] = ()
"""Planted and not found so far: not in the table, and open work for the simulation."""

HARMLESS: dict[str, str] = {
    "torn-tail-not-cut": "What is left of a torn group behind a shorter record is read only if later records end "
    "exactly where one of its own begins. Then it is once more what its sender has not been told to be durable, or, "
    "if its number is too high, passes for damage. The lengths must agree to the byte, so a unit test of the journal "
    "stands for it; the bug that does harm is written-behind-a-torn-tail.",
    "tail-taken-from-the-last-ledger": "Nothing is submitted to a ledger before the one before it is drained, so "
    "what the last one has confirmed is there for good: a tail in it is late, not wrong. The bug that does harm is "
    "tail-taken-from-the-last-seal.",
}
"""Thought of, and not planted since other rules make up for them."""

_AREAS = (quorums, ensemble_changes, ledger_recovery, fences, storage, takeovers, rotations, readers)

MUTATIONS: dict[str, Mutation] = {each.name: each for area in _AREAS for each in area.MUTATIONS}

assert len(MUTATIONS) == sum(len(area.MUTATIONS) for area in _AREAS), "two bugs have one name"
