"""Quorum mathematics against its definitions, exhaustively for every ensemble of up to seven bookies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.distribution import write_set, write_sets
from ledger.core.quorum import absence_proved, at_least, covered, stored_on_quorum, trailing_ones, writable
from ledger.errors import ConfigurationError
from ledger.model import QuorumSizes

ENSEMBLE_MAX = 7


def each_quorum() -> Iterator[QuorumSizes]:
    for ensemble in range(1, ENSEMBLE_MAX + 1):
        for write in range(1, ensemble + 1):
            for ack in range(1, write + 1):
                yield QuorumSizes(ensemble=ensemble, write=write, ack=ack)


def subsets(count: int) -> Iterator[set[int]]:
    for bits in range(1 << count):
        yield {position for position in range(count) if bits >> position & 1}


def ack_quorums(quorum: QuorumSizes) -> list[set[int]]:
    """Every set of bookies whose acknowledgements would confirm some entry."""
    return [
        set(members)
        for entry_id in range(quorum.ensemble)
        for members in itertools.combinations(write_set(entry_id, quorum), quorum.ack)
    ]


@pytest.mark.parametrize("quorum", list(each_quorum()), ids=lambda q: f"E{q.ensemble}W{q.write}A{q.ack}")
def test_coverage_leaves_no_ack_quorum_unfenced(quorum: QuorumSizes) -> None:
    """Covered exactly when every possible ack quorum contains a bookie that answered."""
    possible = ack_quorums(quorum)
    for known in subsets(quorum.ensemble):
        assert covered(known, quorum) == all(members & known for members in possible)


@pytest.mark.parametrize("quorum", list(each_quorum()), ids=lambda q: f"E{q.ensemble}W{q.write}A{q.ack}")
def test_writable_means_that_every_entry_can_reach_an_ack_quorum(quorum: QuorumSizes) -> None:
    for alive in subsets(quorum.ensemble):
        each_entry = all(
            any(set(members) <= alive for members in itertools.combinations(write_set(e, quorum), quorum.ack))
            for e in range(quorum.ensemble)
        )
        assert writable(alive, quorum) == each_entry


@pytest.mark.parametrize("quorum", list(each_quorum()), ids=lambda q: f"E{q.ensemble}W{q.write}A{q.ack}")
def test_absence_is_proved_only_when_no_ack_quorum_can_hold_the_entry(quorum: QuorumSizes) -> None:
    members = write_set(0, quorum)
    for denied in subsets(quorum.write):
        remaining = [position for index, position in enumerate(members) if index not in denied]
        assert absence_proved(len(denied), quorum) == (len(remaining) < quorum.ack)


@pytest.mark.parametrize("quorum", list(each_quorum()), ids=lambda q: f"E{q.ensemble}W{q.write}A{q.ack}")
def test_a_value_is_stored_where_every_covering_reader_meets_it(quorum: QuorumSizes) -> None:
    """A LAC counts as stored on an ack quorum of one write set; each set of answers that covers has one of them."""
    for holders in subsets(quorum.ensemble):
        values = [5 if position in holders else -1 for position in range(quorum.ensemble)]
        stored = stored_on_quorum(values, quorum) == 5
        assert stored == any(len(holders & {*members}) >= quorum.ack for members in write_sets(quorum))
        if stored:
            assert all(holders & known for known in subsets(quorum.ensemble) if covered(known, quorum))


def test_write_sets_go_round_the_ensemble() -> None:
    quorum = QuorumSizes(ensemble=5, write=3, ack=2)
    assert [write_set(entry_id, quorum) for entry_id in (0, 3, 4, 5)] == [
        (0, 1, 2),
        (3, 4, 0),
        (4, 0, 1),
        (0, 1, 2),
    ]
    assert len(write_sets(quorum)) == 5
    assert len(write_sets(QuorumSizes(ensemble=3, write=3, ack=2))) == 1


@given(st.lists(st.integers(0, 2**70 - 1), max_size=7), st.integers(1, 7))
def test_at_least_counts_bits(bitmaps: list[int], count: int) -> None:
    expected = sum(1 << bit for bit in range(70) if sum(bitmap >> bit & 1 for bitmap in bitmaps) >= count)
    assert at_least(count, bitmaps) == expected


@given(st.integers(0, 200), st.integers(0, 2**40))
def test_trailing_ones_counts_up_to_the_first_gap(ones: int, above: int) -> None:
    assert trailing_ones((above << (ones + 1)) | ((1 << ones) - 1)) == ones


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 3, 0), (3, 2, 3), (2, 3, 1), (0, 0, 0)])
def test_impossible_quorums_are_refused(ensemble: int, write: int, ack: int) -> None:
    with pytest.raises(ConfigurationError, match=f"ensemble {ensemble}, write {write}, ack {ack}"):
        QuorumSizes(ensemble=ensemble, write=write, ack=ack)
