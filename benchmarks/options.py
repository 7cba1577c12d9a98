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

    sought_messages: int = 10_000_000
    """Length of the log in which times are looked for."""

    stores: tuple[str, ...] = (SQLITE, ZOOKEEPER)
    """Metadata stores of the benchmarks of logs."""

    minutes: float = 60.0
    """Length of the benchmark `hour`; all its times are in proportion."""

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

    sink_rows: int = 4_000_000
    """Rows that Spark writes in a round."""

    one_row_batches: int = 10
    """Batches of one row that Spark writes in a round."""

    scanned_rows: int = 10_000_000
    """Messages of the log that Spark reads."""

    spark_cores: tuple[int, ...] = (2, 1)
    """Of the sessions that read the log, one after the other."""

    kafka: bool = False
    """Whether Spark also reads the same messages from a Kafka broker."""

    idle_logs: int = 100
    """Logs that an idle stream of Spark reads."""

    read_bytes: int = 128 * MIB
    """Written once and read in every round."""

    written_bytes: int = 5 * 1024 * MIB
    """What the benchmark of memory writes."""

    stored_bytes: int = 50_000_000_000
    """What a bookie holds that is restarted, for `full`."""

    scrubbed_bytes: int = 4_000_000_000
    """What each bookie holds that is scrubbed."""

    lost_bytes: int = 20_000_000_000
    """What a bookie holds that is lost."""

    starts: int = 10
    """Processes started by the benchmark of start-up."""

    bookie_ledgers: int = 100_000
    """Ledgers on one bookie, for `shapes`."""

    open_ledgers: int = 10_000
    """Of these: open, and written to."""

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
        sought_messages=200_000,
        minutes=1.0,
        trials=1,
        busy_logs=20,
        open_writers=50,
        idle_tails=20,
        fan_out=5,
        listed_ledgers=(10, 100),
        read_bytes=8 * MIB,
        written_bytes=64 * MIB,
        sink_rows=100_000,
        one_row_batches=2,
        scanned_rows=100_000,
        spark_cores=(2,),
        idle_logs=5,
        stored_bytes=32_000_000,
        scrubbed_bytes=16_000_000,
        lost_bytes=16_000_000,
        starts=2,
        bookie_ledgers=200,
        open_ledgers=20,
        deletions=2000,
    )
