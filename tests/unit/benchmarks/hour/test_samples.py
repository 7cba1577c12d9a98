"""What follows from the samples of the hour."""

from __future__ import annotations

import pytest

from benchmarks.hour.samples import (
    Seconds,
    SpaceSample,
    damage_repaired_at,
    deleted_mb,
    longest_gap_s,
    space_returned_at,
)
from tests.helpers.benchmarks.hour_samples import copies


def space(at_s: float, megabytes: float, *, marks: int = 0, damaged_blocks: int = 0) -> SpaceSample:
    return SpaceSample(
        at_s=at_s,
        entry_logs_mb={"bookie-0": megabytes / 2, "bookie-1": megabytes / 2},
        journal_mb={"bookie-0": 64.0, "bookie-1": 64.0},
        marks=marks,
        damaged_blocks=damaged_blocks,
        load=1.0,
    )


def test_a_second_has_the_percentiles_of_what_was_acknowledged_in_it() -> None:
    seconds = Seconds()
    for number in range(200):
        seconds.add(0.004 * number, number + 1)
    seconds.add(2.5, 7)
    seconds.finish(4)
    assert seconds.acked == [200, 0, 1, 0]
    assert seconds.p50_ms == [100, None, 7, None]
    assert seconds.p99_ms == [198, None, 7, None]
    assert seconds.largest_ms == [200, None, 7, None]


@pytest.mark.parametrize(
    ("acked", "gap"), [([3, 3], 0), ([3, 0, 0, 1, 0], 2), ([0, 0, 0, 1], 3), ([1, 0, 0], 2), ([], 0)]
)
def test_the_longest_gap_counts_whole_seconds(acked: list[int], gap: int) -> None:
    assert longest_gap_s(Seconds(acked=acked)) == gap


def test_space_is_back_when_nine_tenths_of_what_was_deleted_are() -> None:
    samples = [space(0, 900), space(10, 1000), space(20, 1000), space(30, 200), space(40, 188)]
    assert deleted_mb(samples, 15, 0.9) == pytest.approx(900)
    assert space_returned_at(samples, 15, 0.9, 0.0) == 40
    assert space_returned_at(samples, 15, 0.9, 1.0) == 30, "15 MB of it are new"
    assert space_returned_at(samples[:3], 15, 0.9, 1.0) is None


def test_damage_is_repaired_once_it_was_seen_and_is_seen_no_more() -> None:
    hidden, seen, repaired = copies(1, 20, 20), copies(2, 20, 15), copies(3, 20, 20)
    assert damage_repaired_at([copies(0), hidden, seen, repaired]) == 3
    assert damage_repaired_at([hidden]) is None
    assert damage_repaired_at([seen, repaired, copies(4, 20, 15)]) is None


def test_copies_are_counted_by_entry() -> None:
    sample = copies(0, short=25)
    assert sample.least_copies == 2
    assert sample.mean_copies == pytest.approx(2.75)
    assert copies(0).least_copies == 3
