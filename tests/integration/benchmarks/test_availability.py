"""The benchmark of availability: a trial measures everything, and notices what was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.availability import trial
from benchmarks.availability.outages import BOOKIES, OPERATIONS, PAUSES, Durations, Outage
from benchmarks.availability.report import AvailabilityReport
from benchmarks.availability.trial import LostError, Trial
from tests.helpers.processes.cluster import running_cluster

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_BEFORE_S", 0.2)
    monkeypatch.setattr(trial, "_WATCHED_S", 0.3)


def nothing_found() -> dict[str, Durations]:
    return {operation: Durations() for operation in (*OPERATIONS, *PAUSES)}


async def test_a_trial_measures_every_operation_and_the_cluster_serves_the_next(tmp_path: Path) -> None:
    report = AvailabilityReport()
    async with running_cluster(tmp_path, bookies=BOOKIES) as cluster:
        for number, outage in enumerate((Outage(bookies=1, hung=True), Outage(bookies=1, client=True))):
            found = nothing_found()
            await Trial(cluster, outage, f"log-{number}", tmp_path).run(found)
            assert {name: (each.worked, each.failures) for name, each in found.items()} == dict.fromkeys(
                found, (1, [])
            )
            assert all(ms > 0 for each in found.values() for ms in each.ms)
            assert len(found["Append"].ms) > 20
            report.add("SQLite", outage, found)
    report.finish(tmp_path)
    assert (tmp_path / "availability.png").stat().st_size
    assert AvailabilityReport.load(tmp_path).tables() == report.tables()
    names = [line.split(" | ")[0] for line in report.tables() if line.startswith("| ")]
    assert names == ["| down", "| ---", "| one bookie hung", "| one bookie and client killed"]


async def test_a_lost_message_ends_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_cluster(tmp_path, bookies=BOOKIES) as cluster:
        monkeypatch.setattr(trial, "_SUCCESSOR", b"first ")  # read as the owner's messages, once more
        with pytest.raises(LostError):
            await Trial(cluster, Outage(client=True), "log", tmp_path).run(nothing_found())
