"""What ensemble change, close and recovery make of a ledger's metadata: every legal state met, every race decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.metadata_changes import (
    closed_by_recovery,
    mark_in_recovery,
    needs_close,
    needs_recovery_close,
    needs_recovery_mark,
    needs_replacement,
    replace_members,
)
from ledger.errors import LedgerFencedError, MetadataFormatError
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata, LedgerState, QuorumSizes

LEDGER = LedgerId(7)
BOOKIES = tuple(BookieId(f"b{number}") for number in range(8))
A, B, C, D, E = BOOKIES[:5]


def ledger(
    *fragments: tuple[int, tuple[BookieId, ...]], state: LedgerState = LedgerState.OPEN
) -> LedgerMetadata:
    return LedgerMetadata(
        quorum=QuorumSizes(),
        fragments=tuple(Fragment(EntryId(first), ensemble) for first, ensemble in fragments),
        state=state,
    )


# ---- ensemble change


def test_a_change_appends_a_fragment_after_the_lac() -> None:
    found = replace_members(ledger((0, (A, B, C))), EntryId(5), {1: (B, D)})
    assert found.fragments == (Fragment(EntryId(0), (A, B, C)), Fragment(EntryId(5), (A, D, C)))


def test_a_change_at_the_same_entry_replaces_the_fragment() -> None:
    found = replace_members(ledger((0, (A, B, C))), EntryId(0), {0: (A, D), 2: (C, E)})
    assert found.fragments == (Fragment(EntryId(0), (D, B, E)),)


def test_a_position_that_another_client_changed_is_left_alone() -> None:
    found = replace_members(ledger((0, (A, E, C))), EntryId(3), {1: (B, D), 2: (C, D)})
    assert found.last_fragment.ensemble == (A, E, D)


def test_no_bookie_comes_into_an_ensemble_twice() -> None:
    """An ambiguous change had put D at position 0 already when it is chosen for position 1."""
    found = replace_members(ledger((0, (D, B, C))), EntryId(3), {0: (A, E), 1: (B, D)})
    assert found.last_fragment.ensemble == (D, B, C)


def test_a_fragment_below_the_last_one_is_refused() -> None:
    with pytest.raises(MetadataFormatError, match="rising"):
        replace_members(ledger((0, (A, B, C)), (9, (A, B, C))), EntryId(4), {0: (A, D)})


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
def test_only_an_open_ledger_is_changed(state: LedgerState) -> None:
    assert needs_replacement(ledger((0, (A, B, C))), {0: A})
    assert not needs_replacement(ledger((0, (A, B, C)), state=state), {0: A})
    assert not needs_replacement(ledger((0, (D, B, C))), {0: A})


@given(st.data())
def test_any_series_of_changes_keeps_metadata_legal(data: st.DataObject) -> None:
    """Fragments rise, ensembles are sets, and an entry below a change stays where it was."""
    found, lac = ledger((0, (A, B, C))), -1
    for _ in range(data.draw(st.integers(1, 12))):
        lac += data.draw(st.integers(0, 3))
        before = found
        positions = data.draw(st.sets(st.integers(0, 2), min_size=1))
        replacements = {
            position: (
                data.draw(st.sampled_from([before.last_fragment.ensemble[position], A, D])),
                data.draw(st.sampled_from(BOOKIES)),
            )
            for position in positions
        }
        found = replace_members(before, EntryId(lac + 1), replacements)
        assert len(set(found.last_fragment.ensemble)) == 3
        for entry_id in range(lac + 1):
            assert found.fragment_of(entry_id) == before.fragment_of(entry_id)


# ---- close


@pytest.mark.parametrize("state", list(LedgerState))
@pytest.mark.parametrize("last_entry", [-1, 9, 10, 11])
@pytest.mark.parametrize("length", [99, 100])
def test_the_writers_close_against_every_state(state: LedgerState, last_entry: int, length: int) -> None:
    """Open: close it. Closed exactly so: done. Anything else: somebody took the ledger."""
    found = replace(ledger((0, (A, B, C)), state=state), last_entry=EntryId(last_entry), length=length)
    if state is LedgerState.OPEN:
        assert needs_close(LEDGER, found, EntryId(10), 100)
    elif state is LedgerState.CLOSED and (last_entry, length) == (10, 100):
        assert not needs_close(LEDGER, found, EntryId(10), 100)
    else:
        with pytest.raises(LedgerFencedError, match="lost the ledger"):
            needs_close(LEDGER, found, EntryId(10), 100)


# ---- recovery


def test_only_an_open_ledger_is_marked_and_only_a_marked_one_closed() -> None:
    for state in LedgerState:
        found = ledger((0, (A, B, C)), state=state)
        assert needs_recovery_mark(found) == (state is LedgerState.OPEN)
        assert needs_recovery_close(found) == (state is LedgerState.IN_RECOVERY)
    assert mark_in_recovery(ledger((0, (A, B, C)))).state is LedgerState.IN_RECOVERY


def test_the_closing_change_carries_every_ensemble_that_was_written_back_to() -> None:
    """Two changes at entry 4 (the later one counts) and one at entry 6."""
    changes = [
        Fragment(EntryId(4), (A, B, D)),
        Fragment(EntryId(4), (A, E, D)),
        Fragment(EntryId(6), (A, E, C)),
    ]
    found = closed_by_recovery(
        ledger((0, (A, B, C)), state=LedgerState.IN_RECOVERY), changes, EntryId(7), 700
    )
    assert found.fragments == (Fragment(EntryId(0), (A, B, C)), changes[1], changes[2])
    assert (found.state, found.last_entry, found.length) == (LedgerState.CLOSED, 7, 700)


def test_a_change_at_the_last_fragments_start_replaces_it() -> None:
    found = closed_by_recovery(
        ledger((0, (A, B, C)), (4, (A, B, D))), [Fragment(EntryId(4), (A, B, E))], EntryId(3), 30
    )
    assert [fragment.ensemble for fragment in found.fragments] == [(A, B, C), (A, B, E)]
