"""The report of the hour: events that follow from samples, the verdict, JSON and the plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hour.report import HourReport, _label_places
from benchmarks.hour.samples import Event, Seconds, SpaceSample
from benchmarks.hour.schedule import ADDED, DELETED, FLIPPED, LOST
from benchmarks.hour.verdict import LogResult, LostError, Verdict
from tests.helpers.benchmarks.hour_samples import copies


def space(at_s: float, megabytes: float, *, marks: int = 0, damaged_blocks: int = 0) -> SpaceSample:
    return SpaceSample(
        at_s=at_s,
        entry_logs_mb={"bookie-0": megabytes},
        journal_mb={"bookie-0": 64.0},
        marks=marks,
        damaged_blocks=damaged_blocks,
        load=1.0,
    )


def log_result(*, acked: int = 10, read: int = 10, entries: int = 10, complete: int = 10) -> LogResult:
    return LogResult(log=1, acked=acked, read=read, entries=entries, complete=complete)


def report_of_a_minute() -> HourReport:
    seconds = Seconds()
    for number in range(600):
        seconds.add(number / 10, 2.0 + number % 5)
    seconds.finish(60)
    report = HourReport(1, "SQLite", {}, seconds=seconds, verdict=Verdict(logs=[log_result()]))
    report.events = [Event(10, LOST), Event(20, ADDED), Event(30, DELETED), Event(40, FLIPPED)]
    report.take(
        [
            space(5, 300),
            space(12, 300, marks=4),
            space(29, 500),
            space(35, 60),
            space(45, 70, damaged_blocks=2),
        ],
        [copies(5), copies(12, short=50), copies(25), copies(41, 9, 9), copies(46, 9, 7), copies(50, 9, 9)],
    )
    report.deliveries([{"at": 100.5, "delivered": 4}, {"at": 102.5, "delivered": 24}], began=100.0)
    return report


def test_what_the_cluster_did_is_found_in_the_samples() -> None:
    found = {event.name: event.at_s for event in report_of_a_minute().events}
    assert found == {
        "bookie lost": 10,
        "loss marked": 12,
        "bookie added": 20,
        "copies restored": 25,
        "logs deleted": 30,
        "space returned": 35,
        "bits flipped": 40,
        "scrub found it": 45,
        "damage repaired": 50,
    }


def test_deliveries_are_of_each_second_whenever_they_are_reported() -> None:
    """4 after half a second, 20 more in the next two."""
    assert report_of_a_minute().seconds.delivered[:4] == [9, 10, 5, 0]


def test_labels_of_events_that_are_close_are_kept_apart() -> None:
    assert _label_places([1, 1.2, 5, 5.4, 5.5], 0.5) == [1, 1.5, 5, 5.5, 6]


def test_the_lines_have_the_events_and_each_phase() -> None:
    lines = report_of_a_minute().lines()
    assert "| 0.2 | bookie lost |  |" in lines
    assert "| bookie lost | 10.0 | 4 ms | 6 / 6 / 6 ms | 6 ms |" in lines


def test_json_has_all_samples(tmp_path: Path) -> None:
    report = report_of_a_minute()
    report.finish(tmp_path)
    assert (tmp_path / "hour.png").stat().st_size
    kept = HourReport.from_json((tmp_path / "hour.json").read_text())
    assert (kept.events, kept.space, kept.copies) == (report.events, report.space, report.copies)
    assert kept.verdict == report.verdict
    assert kept.seconds.columns() == report.seconds.columns()


@pytest.mark.parametrize(
    "verdict",
    [
        pytest.param(Verdict(logs=[log_result(complete=9)]), id="an entry lacks a copy"),
        pytest.param(
            Verdict(logs=[LogResult(log=1, acked=1, read=0, faults=["x"])]), id="a message is missing"
        ),
        pytest.param(Verdict(logs=[log_result()], tail_faults=["x"]), id="the tail got another order"),
        pytest.param(Verdict(logs=[log_result()], tail_ends=["x"]), id="the tail ended"),
        pytest.param(Verdict(), id="nothing was read"),
    ],
)
def test_a_loss_fails_the_benchmark_after_its_results_are_written(
    verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HourReport, "plot", lambda report, path: None)  # it takes seconds
    report = report_of_a_minute()
    report.verdict = verdict
    with pytest.raises(LostError):
        report.finish(tmp_path)
    assert (tmp_path / "hour.json").exists()


def test_a_failed_append_is_no_loss() -> None:
    verdict = Verdict(logs=[log_result()], failures=["1.0 s, log 3: AppendAbortedError: x"])
    assert verdict.lost() == []
    assert "1 operations failed" in verdict.lines()
