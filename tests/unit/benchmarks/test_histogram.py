"""Percentiles by nearest rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.histogram import Summary, median, percentile

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def test_percentiles_of_a_hundred_values_are_their_ranks() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [percentile(ordered, share) for share in (0, 0.01, 0.5, 0.99, 0.999, 1)] == [
        1,
        1,
        50,
        99,
        100,
        100,
    ]


@given(values, st.floats(0, 1))
def test_a_percentile_was_measured_and_covers_its_share(measured: list[float], share: float) -> None:
    ordered = sorted(measured)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)


@given(values)
def test_a_summary_rises(measured: list[float]) -> None:
    summary = Summary.of(measured)
    rising = [summary.smallest, summary.p50, summary.p90, summary.p99, summary.p999, summary.largest]
    assert rising == sorted(rising)
    assert summary.count == len(measured)
    assert median(measured) == summary.p50


def test_nothing_measured_and_a_share_beyond_all_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match=r"1\.5"):
        percentile([1.0], 1.5)
