"""What answers to a compare-and-set mean: every combination of what may be found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from dlog.core.metadata_changes import taken_over, with_new_ledger, with_seals
from dlog.core.metadata_update import (
    Applied,
    Deposed,
    Look,
    Lost,
    NotOurs,
    Rebase,
    StartOver,
    Won,
    look_again,
    owner_verdict,
    takeover_verdict,
)
from dlog.model import LogMetadata, LogState, MessageId
from ledger.model import Versioned
from tests.helpers.log.records import ALICE, BOB, listed, record, seal

BEFORE = record(listed(1, 4), listed(2))
ROTATED = with_new_ledger(BEFORE, listed(3), {}, nonce=77)
CLAIMED = taken_over(BEFORE, listed(3), BOB, {2: seal(8)}, now_us=0, nonce=88)


@pytest.mark.parametrize(
    ("found", "look"),
    [
        (None, Look.DECIDED),
        (Versioned(replace(ROTATED, log_uuid="other"), 6), Look.DECIDED),
        (Versioned(ROTATED, 6), Look.APPLIED),
        (Versioned(BEFORE, 5), Look.SEND_AGAIN),
        (Versioned(replace(BEFORE, nonce=5), 6), Look.DECIDED),
        (Versioned(replace(ROTATED, nonce=5), 7), Look.DECIDED),
    ],
)
def test_a_lost_answer_is_settled_by_nonce_then_by_version(
    found: Versioned[LogMetadata] | None, look: Look
) -> None:
    assert look_again(ROTATED, 5, found) is look


def findings() -> list[LogMetadata]:
    """Every record that could be found: incarnation, epoch, owner, tail and state vary freely."""
    tails = [BEFORE.ledgers, ROTATED.ledgers, (*BEFORE.ledgers, listed(9))]
    return [
        replace(
            BEFORE,
            log_uuid=uuid,
            epoch=epoch,
            owner=owner,
            ledgers=ledgers,
            last_ledger_id=9,
            state=state,
            nonce=500,
        )
        for uuid, epoch, owner, ledgers, state in product(
            ["uuid-1", "other"], [1, 2, 3], [ALICE, BOB], tails, list(LogState)
        )
    ]


def test_an_applied_rotation_stands() -> None:
    assert owner_verdict(BEFORE, ROTATED, Applied(ROTATED, 6)) == Applied(ROTATED, 6)


@pytest.mark.parametrize("definite", [True, False])
def test_a_rotation_that_was_not_answered_well_is_judged_by_ownership_and_tail(definite: bool) -> None:
    """Ours and tail N is success (if in doubt), ours and tail P is refused, all else is deposed.

    Source: docs/log-semantics.md#rule-10.
    """
    for found in findings():
        verdict = owner_verdict(BEFORE, ROTATED, NotOurs(Versioned(found, 9), definite=definite))
        ours = found.log_uuid == "uuid-1" and found.epoch == 1 and found.owner == ALICE
        if not ours or found.state is not LogState.ACTIVE:
            assert isinstance(verdict, Deposed)
        elif found.ledger_ids[-1] == 3 and not definite:
            assert verdict == Applied(found, 9)
        elif found.ledger_ids[-1] == 2:
            assert verdict == Rebase(Versioned(found, 9))
        else:
            assert isinstance(verdict, Deposed)


def test_a_rotation_of_a_deleted_log_is_deposed() -> None:
    assert owner_verdict(BEFORE, ROTATED, NotOurs(None, definite=True)) == Deposed(None)


def test_a_shrink_under_the_owner_only_rebases_its_change() -> None:
    """A refused compare-and-set deposes only on a conflict of ownership (docs/log-semantics.md#rule-9)."""
    shrunk = replace(BEFORE, trim_before=MessageId(1, 3), nonce=9)
    sealed = with_seals(BEFORE, {2: seal(3)}, nonce=10)
    for sent in (ROTATED, sealed):
        for definite in (True, False):
            verdict = owner_verdict(BEFORE, sent, NotOurs(Versioned(shrunk, 6), definite=definite))
            assert verdict == Rebase(Versioned(shrunk, 6))


@pytest.mark.parametrize("definite", [True, False])
def test_a_takeover_that_was_not_answered_well_is_judged_by_epoch_owner_and_tail(definite: bool) -> None:
    for found in findings():
        verdict = takeover_verdict(BEFORE, CLAIMED, NotOurs(Versioned(found, 9), definite=definite))
        if found.log_uuid != "uuid-1":
            assert verdict == Lost(Versioned(found, 9), may_delete_new=definite)
        elif found.epoch == BEFORE.epoch:
            assert verdict == StartOver(Versioned(found, 9))
        elif not definite and found.epoch == 2 and found.owner == BOB and found.ledger_ids[-1] == 3:
            assert verdict == Won(found, 9)
        else:
            assert verdict == Lost(Versioned(found, 9), may_delete_new=definite)


def test_a_new_ledger_is_deleted_only_after_a_definite_refusal() -> None:
    """A lost answer taken for a refusal deletes a listed ledger (docs/log-semantics.md#rule-10)."""
    later = replace(CLAIMED, epoch=3, owner=ALICE, nonce=1)
    in_doubt = takeover_verdict(BEFORE, CLAIMED, NotOurs(Versioned(later, 9), definite=False))
    assert in_doubt == Lost(Versioned(later, 9), may_delete_new=False)
    assert takeover_verdict(BEFORE, CLAIMED, NotOurs(None, definite=False)) == Lost(
        None, may_delete_new=False
    )


def test_a_takeover_with_a_change_on_top_has_won() -> None:
    """Somebody shrank right after our compare-and-set, whose answer was lost."""
    on_top = replace(CLAIMED, trim_before=MessageId(2, 0), nonce=1)
    answer = NotOurs(Versioned(on_top, 9), definite=False)
    assert takeover_verdict(BEFORE, CLAIMED, answer) == Won(on_top, 9)
