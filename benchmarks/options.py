"""What the command line says, the same for every benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import RESULTS
from benchmarks.stores import SQLITE, ZOOKEEPER

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    directory: Path
    """Where bookies and floors keep their files: the disk that is measured."""

    results: Path | None = RESULTS
    """Where tables and plots go; None prints only."""

    rounds: int = 5
    """Rounds of every contender, interleaved; the median counts."""

    seconds: float = 1.5
    """Length of one measurement of throughput."""

    warm_up_s: float = 0.5
    entry_bytes: tuple[int, ...] = (100, 1024, 10 * 1024, 64 * 1024)
    appends: int = 500
    """Appends one at a time, in a round."""

    takeovers: int = 30
    stores: tuple[str, ...] = (SQLITE, ZOOKEEPER)
    """Metadata stores of the benchmarks of logs."""

    trials: int = 30
    """Of each outage of the benchmark of availability."""

    busy_logs: int = 500
    """Logs that are written at the same time, one append in flight each."""

    open_writers: int = 10_000
    """Logs that one process has open for writing."""

    idle_tails: int = 1000
    """Logs that one idle process tails."""

    fan_out: int = 50
    """Readers of one log in one process."""

    listed_ledgers: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000)
    """Lengths of a log's list of ledgers."""

    read_bytes: int = 128 * MIB
    """Written once and read in every round."""

    written_bytes: int = 5 * 1024 * MIB
    """What the benchmark of memory writes."""

    starts: int = 10
    """Processes started by the benchmark of start-up."""

    deletions: int = 100_000
    """Ledgers that the benchmark of deletions deletes."""


def quick(directory: Path) -> Options:
    """Everything once or twice, in seconds: shows that the benchmarks work, not what is fast."""
    return Options(
        directory=directory,
        results=None,
        rounds=1,
        seconds=0.4,
        warm_up_s=0.2,
        entry_bytes=(100, 1024),
        appends=50,
        takeovers=3,
        trials=1,
        busy_logs=20,
        open_writers=50,
        idle_tails=20,
        fan_out=5,
        listed_ledgers=(10, 100),
        read_bytes=8 * MIB,
        written_bytes=64 * MIB,
        starts=2,
        deletions=2000,
    )
