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
"""Planted and not found so far; not in the table, and open work for the simulation."""

_AREAS = (quorums, ensemble_changes, ledger_recovery, fences, storage, takeovers, rotations, readers)

MUTATIONS: dict[str, Mutation] = {each.name: each for area in _AREAS for each in area.MUTATIONS}

assert len(MUTATIONS) == sum(len(area.MUTATIONS) for area in _AREAS), "two bugs have one name"
