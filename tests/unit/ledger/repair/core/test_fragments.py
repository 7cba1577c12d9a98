"""Which fragments are closed, and which entries a member must hold."""

from __future__ import annotations

import tracemalloc
from itertools import product

import pytest

from ledger.core.distribution import write_set
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes
from ledger.repair.core.fragments import ClosedFragment, closed_fragments, open_ensemble

B1, B2, B3, B4 = (BookieId(f"b{number}:3181") for number in range(1, 5))
QUORUM = QuorumSizes(ensemble=3, write=3, ack=2)
STRIPED = QuorumSizes(ensemble=3, write=2, ack=2)


def ledger(*firsts: int, last: int | None = None, state: LedgerState = LedgerState.OPEN) -> LedgerMetadata:
    metadata = LedgerMetadata(
        quorum=QUORUM,
        fragments=tuple(Fragment(EntryId(first), (B1, B2, B3)) for first in firsts),
        state=state,
    )
    return metadata if last is None else metadata.closed_at(EntryId(last), 10)


def ranges(metadata: LedgerMetadata) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in closed_fragments(metadata)]


def test_only_fragments_that_cannot_grow_are_closed() -> None:
    assert ranges(ledger(0)) == []
    assert ranges(ledger(0, 10, 20)) == [(0, 9), (10, 19)]
    assert ranges(ledger(0, 10, state=LedgerState.IN_RECOVERY)) == [(0, 9)]
    assert ranges(ledger(0, 10, 20, last=25)) == [(0, 9), (10, 19), (20, 25)]


def test_the_last_ensemble_of_an_open_ledger_is_its_writers() -> None:
    assert open_ensemble(ledger(0, 10)) == (B1, B2, B3)
    assert open_ensemble(ledger(0, state=LedgerState.IN_RECOVERY)) == (B1, B2, B3)
    assert open_ensemble(ledger(0, last=5)) == ()


def test_a_fragment_without_entries_holds_none() -> None:
    """Of an empty ledger, and of one that was closed right after an ensemble change."""
    [empty] = closed_fragments(ledger(0, last=-1))
    assert list(empty.entries_at(0)) == [] and empty.ends_at(0) == []
    first, second = closed_fragments(ledger(0, 10, last=9))
    assert list(first.entries_at(2)) == list(range(10)) and list(second.entries_at(2)) == []


def test_a_member_of_a_striped_fragment_holds_what_is_written_to_it() -> None:
    fragment = ClosedFragment(3, 11, (B1, B2, B3), STRIPED)
    for position in range(3):
        held = [each for each in range(3, 12) if position in write_set(each, STRIPED)]
        entries = fragment.entries_at(position)
        assert list(entries) == held
        assert entries[1:4] == held[1:4] and entries[-1] == held[-1] and entries[::-2] == held[::-2]
        assert fragment.ends_at(position) == [held[0], held[-1]]


def test_a_sample_is_spread_between_the_ends() -> None:
    fragment = ClosedFragment(0, 101, (B1, B2, B3), QUORUM)
    assert fragment.ends_at(0, 5) == [0, 1, 21, 41, 61, 81, 101]
    assert fragment.ends_at(0, 100) == list(range(102))
    assert ClosedFragment(7, 7, (B1, B2, B3), QUORUM).ends_at(0, 100) == [7]


@pytest.mark.parametrize(
    "quorum",
    [QUORUM, STRIPED, QuorumSizes(ensemble=5, write=2, ack=2), QuorumSizes(ensemble=4, write=1, ack=1)],
)
def test_the_ends_and_the_sample_are_of_the_entries_that_the_member_holds(quorum: QuorumSizes) -> None:
    ensemble = tuple(BookieId(f"b{number}:3181") for number in range(quorum.ensemble))
    for first, length, percentage in product(range(6), (0, 1, 2, 3, 5, 9, 40, 123), (0, 5, 30, 100)):
        fragment = ClosedFragment(first, first + length - 1, ensemble, quorum)
        for position in range(quorum.ensemble):
            entry_ids = range(first, first + length)
            held = [each for each in entry_ids if position in write_set(each, quorum)]
            assert list(fragment.entries_at(position)) == held
            inner = held[1:-1]
            count = len(inner) * percentage // 100
            sample = [inner[number * len(inner) // count] for number in range(count)]
            assert fragment.ends_at(position, percentage) == sorted({*held[:1], *sample, *held[-1:]})


@pytest.mark.parametrize("quorum", [QUORUM, STRIPED])
def test_the_entries_of_a_large_fragment_are_counted_and_not_listed(quorum: QuorumSizes) -> None:
    fragment = ClosedFragment(0, 299_999, (B1, B2, B3), quorum)
    tracemalloc.start()
    try:
        assert fragment.ends_at(0)[0] == 0
        assert len(fragment.entries_at(0)) == 300_000 * quorum.write // quorum.ensemble
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
