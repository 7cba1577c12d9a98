"""A limit divided among logs: all of it is used, none gets more than it has, and none nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_connector.stream.fair_shares import fair_shares

LOGS = "abcdefgh"


def test_all_is_read_if_it_fits() -> None:
    assert fair_shares({"a": 3, "b": 7}, 10, "ab") == {"a": 3, "b": 7}


def test_shares_are_in_proportion_to_what_is_pending() -> None:
    assert fair_shares({"a": 1000, "b": 2000, "c": 3000}, 600, "abc") == {"a": 100, "b": 200, "c": 300}


def test_a_log_with_little_gets_something_beside_one_with_much() -> None:
    """Kafka's source does the same, but then reads more than the limit."""
    assert fair_shares({"a": 10**12, "b": 1}, 100, "ab") == {"a": 99, "b": 1}


def test_with_more_logs_than_messages_the_first_ones_get_one_each() -> None:
    assert fair_shares({"a": 5, "b": 5, "c": 5}, 2, "cab") == {"a": 1, "b": 0, "c": 1}


@given(
    st.lists(st.integers(1, 10**15), min_size=1, max_size=len(LOGS)),
    st.integers(1, 10**16),
    st.randoms(use_true_random=False),
)
def test_whatever_is_pending(sizes: list[int], most: int, rng: object) -> None:
    pending = dict(zip(LOGS, sizes, strict=False))
    order = sorted(pending)
    rng.shuffle(order)  # type: ignore[attr-defined]  # a Random
    shares = fair_shares(pending, most, order)
    assert sum(shares.values()) == min(most, sum(sizes))
    assert all(0 <= shares[log] <= pending[log] for log in pending)
    if most >= len(pending):
        assert all(shares.values())
        total = sum(sizes)
        for log, size in pending.items():  # at most one for each log is not in proportion
            assert abs(shares[log] - min(most, total) * size / total) <= len(pending) + 1e-6 * size
