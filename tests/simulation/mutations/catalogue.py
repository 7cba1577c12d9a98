"""All planted bugs, by name."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation
from tests.simulation.mutations import (
    appends,
    ensemble_changes,
    fences,
    ledger_recovery,
    quorums,
    readers,
    rotations,
    storage,
    takeovers,
)

UNPROVED: tuple[str, ...] = ()
"""Planted and not found so far: not in the table, and open work for the simulation."""

HARMLESS: dict[str, str] = {
    "torn-tail-not-cut": "What is left of a torn group behind a shorter record is read only if later records end "
    "exactly where one of its own begins. Then it is once more what its sender has not been told to be durable, or, "
    "if its number is too high, passes for damage. The lengths must agree to the byte, so a unit test of the journal "
    "stands for it; the bug that does harm is written-behind-a-torn-tail.",
    "orphan-deleted-with-its-entries": "What no record lists holds nothing, unless records were lost or restored from "
    "an older backup, which the simulation does not do: tests/conformance/test_sweep.py does.",
    "absent-record-taken-for-a-deleted-log": "A record is removed only after its name says that the log is deleted; "
    "it is absent before only if it was lost. The bug that does harm is sweep-takes-absence-for-proof.",
}
"""Thought of, and not planted since other rules make up for them."""

_AREAS = (quorums, ensemble_changes, ledger_recovery, fences, storage, takeovers, rotations, readers, appends)

MUTATIONS: dict[str, Mutation] = {each.name: each for area in _AREAS for each in area.MUTATIONS}

assert len(MUTATIONS) == sum(len(area.MUTATIONS) for area in _AREAS), "two bugs have one name"
