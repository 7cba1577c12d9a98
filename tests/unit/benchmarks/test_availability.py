"""What the benchmark of availability makes of instants and outcomes."""

from __future__ import annotations

import pytest

from benchmarks.availability.outages import OUTAGES, PAUSES, Durations, Outage
from benchmarks.availability.report import COLUMNS, AvailabilityReport
from benchmarks.availability.trial import _count, _pause


def test_outages_have_the_names_of_the_table() -> None:
    assert [outage.name for outage in OUTAGES] == [
        "none",
        "one bookie killed",
        "one bookie hung",
        "client killed",
        "client hung",
        "one bookie and client killed",
        "one bookie and client hung",
        "two bookies killed",
        "two bookies hung",
    ]


@pytest.mark.parametrize(
    ("instants", "ms"),
    [
        pytest.param([1.0, 5.0, 6.0], 4000, id="from the last before the outage"),
        pytest.param([1.0, 3.5, 4.0, 10.0], 6000, id="to the first after the end"),
        pytest.param([0.0, 2.0, 3.1, 3.3], 1100, id="what ended before the outage does not count"),
        pytest.param([3.3, 3.1, 2.9], 200, id="in any order"),
    ],
)
def test_the_longest_pause_touches_the_outage(instants: list[float], ms: float) -> None:
    found = Durations()
    _pause(found, instants, 3.0, 9.0)
    assert (found.ms, found.worked) == ([pytest.approx(ms)], 1)


def test_a_pause_without_an_end_is_a_failure() -> None:
    found = Durations()
    _pause(found, [1.0, 2.0], 3.0, 9.0)
    assert (found.worked, found.trials) == (0, 1)


def test_appends_of_the_second_after_the_outage_count() -> None:
    found = Durations()
    _count(found, [(0.9, 1.0), (1.0, 1.5), (1.9, 2.0), (2.1, 2.2)], 1.0)
    assert found.ms == pytest.approx([500, 100])
    _count(found, [(0.9, 1.0)], 1.0)
    assert (found.worked, found.trials) == (1, 2)


def test_a_cell_has_median_and_p99_or_what_failed() -> None:
    report = AvailabilityReport({})
    found = {column: Durations([1.0, 2.0, 30.0], 3, []) for column in COLUMNS}
    found["Open"] = Durations([2.0], 1, ["TimeoutError: x"])
    found["Create"] = Durations([], 0, ["TimeoutError: x", "TimeoutError: y"])
    report.add("SQLite", Outage(), found)
    row = next(line for line in report.tables() if line.startswith("| none"))
    assert row == f"| none | fails, 2 of 2 | 2 / 2 (1 of 2) |{' 2 / 30 |' * (len(COLUMNS) - 2)}"
    assert "- SQLite, none, Open: TimeoutError: x" in report.tables()
    assert set(PAUSES) < set(COLUMNS)
