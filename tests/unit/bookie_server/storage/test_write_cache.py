"""The write cache keeps runs and finds single entries in them."""

from hypothesis import given
from hypothesis import strategies as st

from bookie_server.storage.write_cache import WriteCache
from tests.helpers.bookie.storage import make_entry

runs = st.lists(st.sets(st.integers(0, 60), min_size=1, max_size=8).map(sorted), max_size=12)


@given(runs)
def test_every_entry_put_is_found_and_no_other(batches: list[list[int]]) -> None:
    """Runs come in any order and fall into each other's gaps; repeated ids are kept out by the caller."""
    cache, put = WriteCache(), set[int]()
    for batch in batches:
        ids = [entry_id for entry_id in batch if entry_id not in put]
        put.update(ids)
        if ids:
            entries = [make_entry(1, entry_id) for entry_id in ids]
            cache.put(1, ids, entries, sum(map(len, entries)))
    for entry_id in range(61):
        found = cache.entry(1, entry_id)
        assert (found is not None) == (entry_id in put)
        assert found is None or found == make_entry(1, entry_id)
    covered = {entry_id for first, last in cache.ranges(1) for entry_id in range(first, last + 1)}
    assert covered == put


def test_runs_stay_sorted_and_disjoint() -> None:
    cache = WriteCache()
    for ids in ([10, 12], [1, 2], [11], [5], [13, 20]):
        cache.put(1, ids, [make_entry(1, entry_id) for entry_id in ids], 1)
    flat = [entry_id for ids, _ in cache.ledgers[1].runs for entry_id in ids]
    assert flat == [1, 2, 5, 10, 11, 12, 13, 20]


def test_dropping_a_ledger_gives_its_bytes_back() -> None:
    cache = WriteCache()
    cache.put(1, [1], [make_entry(1, 1)], 50)
    size = cache.size
    cache.put(2, [1], [make_entry(2, 1)], 50)
    cache.drop(2)
    cache.drop(3)
    assert cache.size == size
    assert cache.entry(2, 1) is None
