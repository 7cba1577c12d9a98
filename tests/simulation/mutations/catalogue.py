"""All planted bugs, by name."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation
from tests.simulation.mutations import (
    appends,
    cursors,
    decommissions,
    ensemble_changes,
    fences,
    inspections,
    ledger_recovery,
    losses,
    owner_requests,
    pages,
    producers,
    quorums,
    readers,
    rotations,
    seals,
    sinks,
    storage,
    takeovers,
)

UNPROVED: tuple[str, ...] = ("appends-that-are-sent-again-count-before",)
"""Planted and not found so far: not in the table, and open work for the simulation."""

HARMLESS: dict[str, str] = {
    "torn-tail-not-cut": "The rest of a torn group is read only if a later record ends exactly where a record of the "
    "group begins. It has not been acknowledged, so no promise is broken if it comes back; with a number too high it "
    "counts as damage, and the bookie does not start. The lengths must agree to the byte: a unit test makes them, and "
    "fails with this bug (test_no_record_of_a_torn_group_is_read_after_a_later_one in "
    "tests/unit/bookie_server/journal/test_journal_replay.py). Planted is its neighbour written-behind-a-torn-tail.",
    "orphan-deleted-with-its-entries": "A ledger that no record can list any more has no entries, since nothing is "
    "sent to a ledger before a record lists it. Each seed with administrators checks that: the sweep spares a ledger "
    "with entries, and the run fails unless all that no log lists is deleted (dlog/testing/swarm/garbage.py). It does "
    "harm after records were lost or restored from a backup: test_an_orphan_goes_only_if_it_is_empty in "
    "tests/conformance/test_sweep.py does that, and fails with this bug.",
    "absent-record-taken-for-a-deleted-log": "A ledger is created after the record of its log, and the record removed "
    "after the name says that the log is deleted; so as long as no record is lost, the record of a ledger that exists "
    "is absent only then. Were it otherwise, the ledger would still be spared if it has entries, as above. It does "
    "harm where a record is lost: test_a_deleted_logs_orphan_is_deleted_once_its_name_says_deleted and "
    "test_a_name_that_was_never_used_proves_nothing in tests/conformance/test_sweep.py do that, and fail with this "
    "bug. Planted is sweep-takes-absence-for-proof, which is this one with two more rules removed.",
    "waiter-fences-the-next-owner": "A client that waited for one owner fences another: the owner is deposed as by any "
    "takeover, and no promise is broken. test_of_two_that_ask_one_gets_it_and_the_other_fails_or_asks_again in "
    "tests/unit/dlog/write/test_hand_over.py fails with this bug.",
    "request-to-an-earlier-owner-is-executed": "A new owner ends because an earlier one was asked to: its appends are "
    "settled and the log is free, so no promise is broken. test_a_request_to_an_earlier_owner_is_ignored in the same "
    "file fails with this bug.",
}
"""Thought of, and not planted: what they would harm the simulation does not do. A named test fails with each."""

_AREAS = (
    quorums,
    ensemble_changes,
    ledger_recovery,
    losses,
    fences,
    inspections,
    storage,
    takeovers,
    owner_requests,
    rotations,
    pages,
    seals,
    readers,
    cursors,
    appends,
    producers,
    sinks,
    decommissions,
)

MUTATIONS: dict[str, Mutation] = {each.name: each for area in _AREAS for each in area.MUTATIONS}

assert len(MUTATIONS) == sum(len(area.MUTATIONS) for area in _AREAS), "two bugs have one name"
