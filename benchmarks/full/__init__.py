"""What does a bookie that holds a lot cost: its restart after `kill -9`, its scrubber, and its loss?

The restart is one of a bookie with 50 GB, half of it in entries that are written once. The scrubber reads a bookie that
is idle, then all bookies of a cluster at the same time during appends. A bookie with 20 GB is lost for good, and
`bookie autorecovery` copies what it had to an empty one during appends at a fixed rate.
"""

from __future__ import annotations

from benchmarks.full import loss, restart, scrub
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs


async def run(options: Options) -> Report:
    report = Report("full", "What does a bookie that holds a lot cost?")
    for part in (restart, scrub, loss):
        runs = Runs()
        await part.measure(options, runs)
        for row in part.rows(options, runs):
            report.add(row)
    return report
