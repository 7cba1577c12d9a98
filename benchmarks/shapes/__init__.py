"""What does a bookie do under loads that are not the usual one?

100,000 ledgers on one bookie, 10,000 of them open; entries of 5 MB; one bookie of three that hangs again and again;
and a reader that catches up on a cold log while appends come at a fixed rate.
"""

from __future__ import annotations

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.shapes import cold_reader, large_entries, many_ledgers, slow_bookie


async def run(options: Options) -> Report:
    report = Report("shapes", "What does a bookie do under loads that are not the usual one?")
    for shape in (many_ledgers, large_entries, slow_bookie, cold_reader):
        runs = Runs()
        await shape.measure(options, runs)
        for row in shape.rows(options, runs):
            report.add(row)
    return report
