"""The write cache keeps runs and finds single entries in them."""

import time

from hypothesis import given
from hypothesis import strategies as st

from bookie_server.storage.write_cache import LONG_RUN, LedgerRuns, WriteCache
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


@given(st.lists(st.tuples(st.integers(1, 2 * LONG_RUN), st.booleans()), max_size=12))
def test_what_a_writer_sends_is_found_however_much_came_together(sent: list[tuple[int, bool]]) -> None:
    """Short runs are put together, long ones are not, with gaps here and there; no list of the caller grows."""
    cache, following, stored, given_lists = (
        WriteCache(),
        0,
        dict[int, bytes](),
        list[tuple[list[bytes], int]](),
    )
    for count, leaves_gap in sent:
        ids = list(range(following, following + count))
        entries = [b"%d" % each for each in ids]
        cache.put(1, ids, entries, sum(map(len, entries)))
        given_lists.append((entries, count))
        stored.update(zip(ids, entries, strict=True))
        following += count + leaves_gap
    assert [len(entries) for entries, _ in given_lists] == [count for _, count in given_lists]
    for entry_id in range(-1, following + 1):
        assert cache.entry(1, entry_id) == stored.get(entry_id)
        found = cache.consecutive(1, entry_id, LONG_RUN)
        assert bool(found) == (entry_id in stored)
        assert list(found) == [stored[entry_id + each] for each in range(len(found))]
    runs = cache.ledgers[1].runs if sent else []
    assert [entry_id for ids, _ in runs for entry_id in ids] == list(stored)
    assert [entry for _, entries in runs for entry in entries] == list(stored.values())


def test_entries_that_follow_one_by_one_are_one_run() -> None:
    cache = WriteCache()
    for entry_id in range(100):
        cache.put(1, [entry_id], [make_entry(1, entry_id)], 1)
    [(ids, entries)] = cache.ledgers[1].runs
    assert (ids, len(entries)) == (range(100), 100)


def test_runs_stay_sorted_and_disjoint() -> None:
    cache = WriteCache()
    for ids in ([10, 12], [1, 2], [11], [5], [13, 20]):
        cache.put(1, ids, [make_entry(1, entry_id) for entry_id in ids], 1)
    flat = [entry_id for ids, _ in cache.ledgers[1].runs for entry_id in ids]
    assert flat == [1, 2, 5, 10, 11, 12, 13, 20]


def test_only_the_first_late_entry_of_a_run_costs_as_much_as_the_run() -> None:
    def late(entry_id: int) -> float:
        began = time.thread_time()
        cache.put(1, [entry_id], [entry], len(entry))
        return time.thread_time() - began

    count, entry = 100_000, make_entry(1, 0)
    ids_given, entries_given = list(range(0, 2 * count, 2)), [entry] * count
    cache = WriteCache()
    cache.put(1, ids_given, entries_given, count * len(entry))
    first = late(1)
    assert sum(late(entry_id) for entry_id in range(3, 23, 2)) < 10 * first / 4
    assert cache.ranges(1)[:2] == [(0, 22), (24, 24)]
    assert len(ids_given) == len(entries_given) == count, "the caller's lists do not change"


def test_dropping_a_ledger_gives_its_bytes_back() -> None:
    cache = WriteCache()
    cache.put(1, [1], [make_entry(1, 1)], 50)
    size = cache.size
    cache.put(2, [1], [make_entry(2, 1)], 50)
    cache.drop(2)
    cache.drop(3)
    assert cache.size == size
    assert cache.entry(2, 1) is None


def test_an_entry_that_comes_twice_is_in_its_run_once() -> None:
    runs = LedgerRuns()
    for ids in ([0, 4, 8], [2], [4], [6], [6]):
        runs.put(ids, [b"%d" % each for each in ids], len(ids))
    assert [list(ids) for ids, _ in runs.runs] == [[0, 2, 4, 6, 8]]
    assert [entry for _, entries in runs.runs for entry in entries] == [b"0", b"2", b"4", b"6", b"8"]
