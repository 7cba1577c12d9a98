"""The choice of a target, and the change of metadata that puts it into the ensemble."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ledger.core.placement import PlacementPolicy
from ledger.core.spread import Spread
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    EntryId,
    Fragment,
    LedgerId,
    LedgerMetadata,
    LedgerState,
    QuorumSizes,
)
from ledger.repair.core.fragments import closed_fragments
from ledger.repair.core.replacing import Replacement, choose_target
from ledger.repair.errors import FragmentChangedError

B1, B2, B3, B4, B5 = (BookieId(f"b{number}:3181") for number in range(1, 6))
OPEN = LedgerMetadata(
    quorum=QuorumSizes(ensemble=3, write=3, ack=2),
    fragments=(
        Fragment(EntryId(0), (B1, B2, B3)),
        Fragment(EntryId(10), (B1, B2, B4)),
        Fragment(EntryId(20), (B1, B2, B4)),
    ),
)
CLOSED = OPEN.closed_at(EntryId(25), 99)
CHANGE = Replacement(LedgerId(7), closed_fragments(OPEN)[1], 2, B4, B5)


def with_members(metadata: LedgerMetadata, at: int, *ensemble: BookieId) -> LedgerMetadata:
    fragments = list(metadata.fragments)
    fragments[at] = Fragment(fragments[at].first_entry, ensemble)
    return replace(metadata, fragments=tuple(fragments))


@pytest.mark.parametrize("metadata", [OPEN, OPEN.with_state(LedgerState.IN_RECOVERY), CLOSED])
def test_one_member_of_one_fragment_changes_and_nothing_else(metadata: LedgerMetadata) -> None:
    assert CHANGE.needed(metadata)
    assert CHANGE.applied(metadata) == with_members(metadata, 1, B1, B2, B5)
    assert not CHANGE.needed(CHANGE.applied(metadata))


def test_what_others_have_replaced_meanwhile_stays() -> None:
    moved = with_members(with_members(CLOSED, 1, B1, B3, B4), 0, B5, B2, B3)
    assert CHANGE.needed(moved)
    assert CHANGE.applied(moved) == with_members(moved, 1, B1, B3, B5)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (with_members(OPEN, 1, B1, B2, B3), "has b3:3181 in place of b4:3181 already"),
        (with_members(OPEN, 1, B5, B2, B4), "has b5:3181 at another position"),
        (replace(OPEN, fragments=OPEN.fragments[:2]), "has other entries now"),
        (
            replace(OPEN, fragments=(*OPEN.fragments[:2], Fragment(EntryId(15), (B1, B2, B4)))),
            "has other entries",
        ),
        (replace(CLOSED, last_entry=EntryId(12)), "has other entries now"),
    ],
)
def test_a_change_on_a_stale_view_is_refused(found: LedgerMetadata, says: str) -> None:
    with pytest.raises(FragmentChangedError, match=says) as caught:
        CHANGE.needed(found)
    assert (caught.value.ledger_id, caught.value.first_entry) == (7, 10)


def bookies(*writable: BookieId, read_only: tuple[BookieId, ...] = ()) -> BookieSet:
    def info(bookie_id: BookieId) -> BookieInfo:
        return BookieInfo(bookie_id=bookie_id, host="h", port=1)

    return BookieSet(writable=tuple(map(info, writable)), read_only=tuple(map(info, read_only)))


def test_a_target_is_writable_and_neither_a_member_nor_avoided() -> None:
    fragment = closed_fragments(OPEN)[0]
    rng = Random(1)
    assert choose_target(bookies(B1, B2, B3, read_only=(B4,)), fragment, 2, (), None, rng) is None
    assert choose_target(bookies(B1, B4, B5), fragment, 2, {B4}, None, rng) == B5
    found = {choose_target(bookies(B1, B2, B3, B4, B5), fragment, 2, (), None, rng) for _ in range(50)}
    assert found == {B4, B5}


def test_what_one_bookie_held_goes_to_the_same_target_if_it_can() -> None:
    first, second = closed_fragments(OPEN)[:2]
    rng = Random(1)
    every = bookies(B1, B2, B3, B4, B5)
    assert {choose_target(every, first, 2, (), B4, rng) for _ in range(20)} == {B4}
    assert {choose_target(every, second, 2, (), B4, rng) for _ in range(20)} == {B3, B5}


def test_a_target_keeps_the_racks_of_the_fragment() -> None:
    """B1 and B2 share a rack, and so do B3, which is replaced, and B5."""
    locations = {B1: ("r1",), B2: ("r1",), B3: ("r2",), B4: ("r1",), B5: ("r2",)}
    fragment = closed_fragments(OPEN)[0]
    assert fragment.ensemble[:2] == (B1, B2)
    for enforce in (False, True):
        policy = PlacementPolicy(spread=Spread(2, 1), enforce=enforce, locations=locations)
        for preferred in (None, B4, B5):
            target = choose_target(bookies(B1, B2, B4, B5), fragment, 2, (), preferred, Random(1), policy)
            assert target == B5
        only_b4 = choose_target(bookies(B1, B2, B4), fragment, 2, (), None, Random(1), policy)
        assert only_b4 == (None if enforce else B4)
