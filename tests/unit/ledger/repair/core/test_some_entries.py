"""Some of the entries of a fragment, counted by gaps."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import pytest

from ledger.model import BookieId, QuorumSizes
from ledger.repair.core.fragments import ClosedFragment
from ledger.repair.core.some_entries import SomeEntries

ENSEMBLE = (BookieId("a"), BookieId("b"), BookieId("c"))


def test_it_is_the_sequence_of_what_was_added() -> None:
    striped = ClosedFragment(3, 17, ENSEMBLE, QuorumSizes(ensemble=3, write=2, ack=1)).entries_at(1)
    for size in range(len(striped) + 1):
        for positions in combinations(range(len(striped)), size):
            some = SomeEntries(striped)
            some.add(positions[: size // 2])
            some.add(positions[size // 2 :])
            expected = [striped[each] for each in positions]
            assert list(some) == expected and len(some) == size and bool(some) == bool(size)
            assert some[1:3] == expected[1:3] and some[-2:] == expected[-2:]
    with pytest.raises(IndexError):
        SomeEntries(striped)[0]


@pytest.mark.parametrize("write", [2, 3])
def test_it_takes_no_memory_for_each_entry_of_a_row(write: int) -> None:
    """Also where the ids are not consecutive, because the fragment is striped."""
    entry_ids = ClosedFragment(0, 599_999, ENSEMBLE, QuorumSizes(ensemble=3, write=write, ack=1)).entries_at(
        0
    )
    some = SomeEntries(entry_ids)
    tracemalloc.start()
    some.add(range(200_000))
    some.add(range(200_001, len(entry_ids)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(some) == len(entry_ids) - 1
    assert peak < 100_000  # half a byte for each entry: other threads of the process allocate, too
