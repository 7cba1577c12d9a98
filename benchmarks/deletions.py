"""How long does a lookup in a bookie's index take after many ledgers were deleted?

The index of one bookie, in this process: each of the ledgers has one block of entries, then all but one are
deleted, as checkpoints do it. In turns a ledger with entries, a deleted one, and one that has no entries yet are
looked up; the floor is the same before the deletions.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.index import Index, Interval

_PER_CHECKPOINT = 1000
_LOOKUPS = 50
_BEFORE = "before any deletion"


async def run(options: Options) -> Report:
    runs, count = Runs(), options.deletions
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            await asyncio.to_thread(_round, Path(directory), count, runs)
    after = f"after {count:,} deletions"
    report = Report("deletions", "What do deleted ledgers cost a bookie's index?")
    floor = runs.median(_BEFORE, "with entries")
    report.add(runs.row("one of 1,000 in a checkpoint", "deletion", "µs"))
    report.add(runs.row(_BEFORE, "with entries", "µs"))
    for contender in ("with entries", "deleted", "without entries"):
        report.add(runs.row(after, contender, "µs", floor=floor))
    return report


def _round(directory: Path, count: int, runs: Runs) -> None:
    live, unwritten = count + 1, count
    index = Index(SystemDisk().open_key_values(directory / "index"))
    try:
        for ledger_id in (*range(count), live):
            index.append(ledger_id, [Interval(0, 9, 1, 64, 100, True)])
        index.sync(1)
        runs.add(_BEFORE, "with entries", _lookup_us(index, live))
        runs.add("one of 1,000 in a checkpoint", "deletion", _time_us(lambda: _delete(index, count)) / count)
        after = f"after {count:,} deletions"
        runs.add(after, "with entries", _lookup_us(index, live))
        runs.add(after, "deleted", _lookup_us(index, count // 2))
        runs.add(after, "without entries", _lookup_us(index, unwritten))
    finally:
        index.close()


def _delete(index: Index, count: int) -> None:
    for ledger_id in range(count):
        index.remove_entries(ledger_id)
        if ledger_id % _PER_CHECKPOINT == 0:
            index.sync(2)
    index.sync(2)


def _lookup_us(index: Index, ledger_id: int) -> float:
    return _time_us(lambda: [index.find(ledger_id, 3) for _ in range(_LOOKUPS)]) / _LOOKUPS


def _time_us(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6
