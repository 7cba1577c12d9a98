"""What no client may have marked is known to the check of all copies at the end of a run."""

from __future__ import annotations

from dlog.testing.metadata.history import CallOutcome, RegisterHistory
from dlog.testing.swarm.repair.repairers import closed_unheard
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import LedgerMetadata
from tests.helpers.metadata.register_history import B1, B2, B3, CLOSED, RECOVERING


def written(metadata: LedgerMetadata, outcome: CallOutcome) -> RegisterHistory:
    history = RegisterHistory()
    call = history.invoke(
        "writer-1", "ledger/14", "write", expected=1, value=encode_ledger_metadata(metadata)
    )
    call.outcome = outcome
    return history


def test_a_client_that_was_killed_before_it_heard_of_its_closing_has_marked_nothing() -> None:
    assert closed_unheard(written(CLOSED, CallOutcome.UNKNOWN)) == {14: {B1, B2, B3}}


def test_one_that_heard_of_it_marks_what_it_knows() -> None:
    assert closed_unheard(written(CLOSED, CallOutcome.DONE)) == {}


def test_a_ledger_that_is_not_closed_gets_its_marks_from_the_next_recovery() -> None:
    assert closed_unheard(written(RECOVERING, CallOutcome.UNKNOWN)) == {}
