"""The benchmarks of logs and of bookies measure what they report, on a small scale."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import bookie, full, latency, long_log, many_logs, seek, shapes
from benchmarks.options import Options, quick
from benchmarks.report import Report
from benchmarks.stores import SQLITE

pytestmark = [pytest.mark.integration, pytest.mark.nightly]


@pytest.mark.parametrize(
    ("run", "contenders"),
    [
        (latency.run, {"append, p99.9", "append to tail, p50", "longest pause of a tail, p99"}),
        (long_log.run, {"10 ledgers", "25 ledgers"}),
        (bookie.run, {"adds of 5 ledgers, together", "explicit LACs of 5 ledgers, together"}),
        (seek.run, {"warm, p50", "a new client, p99"}),
        (
            shapes.run,
            {"restart after kill -9", "append", "one of three hangs four fifths of the time", "cold"},
        ),
        (
            full.run,
            {"a bookie with 0.032 GB", "alone", "while all three scrub", "0.016 GB", "while copies are made"},
        ),
        (
            many_logs.run,
            {"5 logs, one in flight each", "one log, 5 in flight", "3 readers", "10 logs", "8 logs"},
        ),
    ],
    ids=lambda value: value.__module__ if callable(value) else "",
)
async def test_every_case_is_measured(
    run: Callable[[Options], Awaitable[Report]],
    contenders: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latency, "_ROTATIONS", 3)
    monkeypatch.setattr(latency, "_DEATHS", 2)
    monkeypatch.setattr(latency, "_SETTLE_S", 0.2)
    monkeypatch.setattr(latency, "_FAST", 500)
    monkeypatch.setattr(many_logs, "_SETTLE_S", 0.2)
    monkeypatch.setattr(seek, "_LEDGERS", 5)
    monkeypatch.setattr(seek, "_SEEKS", 20)
    monkeypatch.setattr(seek, "_NEW_CLIENTS", 3)
    monkeypatch.setattr(long_log, "_TRIALS", 2)
    monkeypatch.setattr(many_logs, "_WHOLE_PROCESS_S", 0.6)
    options = replace(
        quick(tmp_path),
        stores=(SQLITE,),
        seconds=0.6,
        busy_logs=5,
        fan_out=3,
        open_writers=10,
        idle_tails=8,
        listed_ledgers=(10, 25),
        sought_messages=10_000,
        bookie_ledgers=30,
        open_ledgers=5,
        read_bytes=1024 * 1024,
    )
    report = await run(options)
    assert contenders <= {row.contender for row in report.rows}
    by_case = {(row.case, row.contender): row.value for row in report.rows}
    assert [
        key
        for key, value in by_case.items()
        if value <= 0 and not key[0].endswith((", failed", ", processor"))
    ] == []
    assert all(value == 0 for (case, _), value in by_case.items() if case.endswith(", failed"))
