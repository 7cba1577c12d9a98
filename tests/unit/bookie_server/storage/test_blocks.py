"""How a checkpoint cuts a ledger's entries into blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bookie_server.journal.block import in_blocks

Sizes = st.lists(st.integers(0, 30), min_size=1, max_size=12)


def blocks_of(runs: list[list[int]], bytes_max: int) -> list[tuple[list[int], list[int]]]:
    """Ids and sizes of each block, for runs of entries given by their sizes."""
    entry_id = 0
    cut = []
    for run in runs:
        ids = list(range(entry_id, entry_id + len(run)))
        cut.append((ids, [memoryview(bytes(size)) for size in run]))
        entry_id += len(run) + 1
    return [(list(ids), list(map(len, entries))) for ids, entries in in_blocks(cut, bytes_max)]


def test_an_entry_larger_than_a_block_ends_and_is_followed_by_others() -> None:
    """It once made the cut go back to the run's start, for ever, until the disk was full."""
    assert blocks_of([[3, 25, 4, 4]], 10) == [([0], [3]), ([1], [25]), ([2, 3], [4, 4])]
    assert blocks_of([[25, 25]], 10) == [([0], [25]), ([1], [25])]


@given(st.lists(Sizes, min_size=1, max_size=4), st.integers(1, 40))
def test_blocks_concatenate_to_the_entries_and_keep_their_limit(
    runs: list[list[int]], bytes_max: int
) -> None:
    blocks = blocks_of(runs, bytes_max)
    assert [size for _, sizes in blocks for size in sizes] == [size for run in runs for size in run]
    ids = [entry_id for block_ids, _ in blocks for entry_id in block_ids]
    assert ids == sorted(set(ids))
    assert all(sum(sizes) <= bytes_max or len(sizes) == 1 for _, sizes in blocks)
