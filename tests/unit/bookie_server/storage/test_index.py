"""The index keeps the intervals of a ledger disjoint, whatever comes late."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import IndexVersionError
from bookie_server.storage.index import Index, Interval, LogEnd, interval_of, state_record
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.ranges import dense_ranges


@pytest.fixture(scope="module")
def shared() -> Iterator[Index]:
    with tempfile.TemporaryDirectory() as directory:
        index = Index(SystemDisk().open_key_values(Path(directory) / "index"))
        yield index
        index.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(SystemDisk().open_key_values(tmp_path / "index"))
    yield index
    index.close()


_ledgers = iter(range(1, 10**9))
blocks = st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=10).map(sorted), max_size=10)


@settings(max_examples=60, deadline=None)
@given(blocks)
def test_each_entry_is_found_in_the_block_that_holds_it(shared: Index, batches: list[list[int]]) -> None:
    """As a checkpoint does it: behind the end whole blocks, before it dense ranges."""
    ledger_id, held_by, covered = next(_ledgers), dict[int, int](), -1
    for number, batch in enumerate(batches):
        ids = [entry_id for entry_id in batch if entry_id not in held_by]
        if not ids:
            continue
        held_by.update(dict.fromkeys(ids, number))
        whole = Interval(ids[0], ids[-1], 1, number, 10, ids[-1] - ids[0] + 1 == len(ids))
        if ids[0] > covered:
            shared.append(ledger_id, [whole])
        else:
            for first, last in dense_ranges(ids):
                shared.insert(ledger_id, Interval(first, last, 1, number, 10, True), 10)
        covered = max(covered, ids[-1])
    previous_last = -1
    for interval in shared.intervals(ledger_id):
        assert previous_last < interval.first <= interval.last
        previous_last = interval.last
    for entry_id in range(41):
        found = shared.find(ledger_id, entry_id)
        if entry_id in held_by:
            assert found is not None
            assert found.offset == held_by[entry_id]
        else:
            assert found is None or not found.dense
    assert shared.last_covered(ledger_id) == covered


@settings(max_examples=60, deadline=None)
@given(blocks)
def test_entries_that_are_stored_again_are_found_in_their_last_block(
    shared: Index, batches: list[list[int]]
) -> None:
    """What a damaged block had comes again, in any order, with some of what others still have."""
    ledger_id, held_by = next(_ledgers), dict[int, int]()
    for number, ids in enumerate(batch for batch in batches if batch):
        shared.add_blocks(ledger_id, [(ids, interval_of(ids, 1, number, 10))])
        held_by.update(dict.fromkeys(ids, number))
    previous_last = -1
    for interval in shared.intervals(ledger_id):
        assert previous_last < interval.first <= interval.last
        previous_last = interval.last
    for entry_id, number in held_by.items():
        found = shared.find(ledger_id, entry_id)
        assert found is not None
        assert found.offset == number


def test_ledgers_do_not_see_each_other(index: Index) -> None:
    index.append(5, [Interval(0, 9, 1, 64, 10, True)])
    assert index.find(4, 3) is None
    assert index.find(6, 3) is None
    assert index.find(5, 9) is not None
    assert index.find(5, 10) is None


def test_a_state_comes_back_as_it_was(index: Index) -> None:
    state = StoredLedger(5, b"key")
    state.fenced, state.lac, state.last_entry = True, 4, 6
    state.explicit_lac, state.explicit_lac_value = b"packet", 3
    index.put_states([state_record(state)])
    again = index.state(5)
    assert again is not None
    assert repr(again) == repr(state)
    assert (again.master_key, again.explicit_lac, again.explicit_lac_value) == (b"key", b"packet", 3)
    assert again.fence_durable
    assert index.state(6) is None


def test_deleted_ledgers_are_not_listed_but_known(index: Index) -> None:
    for ledger_id in (3, 1, 2):
        state = StoredLedger(ledger_id, b"key")
        state.deleted = ledger_id == 2
        index.put_states([state_record(state)])
    assert list(index.ledger_ids()) == [1, 3]
    gone = index.state(2)
    assert gone is not None
    assert gone.deleted


def test_a_log_is_dead_when_its_last_ledger_is_removed(index: Index) -> None:
    index.append(5, [Interval(0, 9, 1, 64, 10, True)])
    index.append(5, [Interval(12, 19, 2, 64, 10, True)])
    index.insert(6, Interval(0, 9, 2, 74, 10, True), 10)
    index.remove_entries(5)
    assert index.find(5, 3) is None
    assert index.find(6, 3) is not None
    assert not index.has_live_ledger(1)
    assert index.has_live_ledger(2)


def test_a_log_that_only_a_deleted_ledger_is_counted_for_is_dead(index: Index) -> None:
    """Its entries were stored anew in a later log, so that no interval leads to the first one when it is deleted."""
    index.append(5, [Interval(0, 9, 1, 64, 10, True)])
    index.insert(5, Interval(0, 9, 2, 64, 10, True), 10)
    assert index.has_live_ledger(1)
    state = StoredLedger(5, b"")
    state.deleted = True
    index.put_states([state_record(state)])
    index.remove_entries(5)
    assert not index.has_live_ledger(1)
    assert not index.has_live_ledger(2)


def test_what_was_synced_survives_reopening(index: Index) -> None:
    index.put_log_end(LogEnd(1, 64))
    index.sync(1)
    index.put_log_end(LogEnd(2, 99))
    index.reopen()
    assert index.log_end() in (LogEnd(1, 64), LogEnd(2, 99))
    assert index.generation() == 1
    index.put_log_end(LogEnd(3, 99))
    assert index.log_end() == LogEnd(3, 99)


def test_a_newer_index_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.put_log_end(LogEnd(1, 64))
    monkeypatch.setattr("bookie_server.storage.index.VERSION", 0)
    with pytest.raises(IndexVersionError, match=r"version 1.* up to 0"):
        index.log_end()


def test_a_large_ledger_is_removed_in_whole(index: Index) -> None:
    """Its records go in several pieces; a neighbour's stay."""
    for log_id in (1, 2):
        first = (log_id - 1) * 2000
        index.append(5, [Interval(first + n, first + n, log_id, 64 + n, 10, True) for n in range(2000)])
    index.append(4, [Interval(0, 9, 3, 64, 10, True)])
    index.append(6, [Interval(0, 9, 3, 74, 10, True)])
    index.remove_entries(5)
    assert list(index.intervals(5)) == []
    assert index.last_covered(5) == -1
    assert not index.has_live_ledger(1)
    assert not index.has_live_ledger(2)
    assert index.find(4, 3) is not None
    assert index.find(6, 3) is not None


def test_deleted_ledgers_do_not_slow_down_lookups(index: Index) -> None:
    """A deletion of a range for each of 3,000 made a lookup take 100 times as long."""
    deleted, live, unwritten = range(3000), 5000, 4000

    def lookup_s() -> float:
        took = []
        for _ in range(25):
            began = time.perf_counter()
            assert index.find(live, 3) is not None
            assert index.find(unwritten, 3) is None
            took.append(time.perf_counter() - began)
        return min(took)

    for ledger_id in (*deleted, live):
        index.append(ledger_id, [Interval(0, 9, 1, 64, 100, True)])
    index.sync(1)
    before_s = lookup_s()
    for ledger_id in deleted:
        index.remove_entries(ledger_id)
    assert lookup_s() < 15 * before_s
    index.sync(2)
    assert lookup_s() < 15 * before_s
