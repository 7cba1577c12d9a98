"""The benchmarks: `python -m benchmarks [NAME ...] [--quick]`, all of them unless some are named.

Some run only when they are named. `storage` compares ways to store entries, `capacity` counts what a bookie needs for
them; `shapes` has many ledgers on a bookie, large entries, a bookie that hangs, and cold reads; `full` restarts, scrubs
and loses bookies that hold a lot, and needs 60 GB of disk. `interop` compares with Apache's client and needs Java and
Apache's jars; `spark_scan` reads and `spark_sink` writes logs from Spark, `spark_stream` does both in a stream, and all
need Java. With --kafka `spark_scan` compares with Spark's Kafka source, too, and needs Kafka's jars. `latency`,
`many_logs`, `long_log`, `seek` and `availability` (half an hour) run on SQLite and on ZooKeeper, unless --stores names
one. `hour` has a cluster bear losses for --minutes, 60 by default. The others run on SQLite; `takeover` and `hour` on
what --stores names.

Each asks one question, measures its contenders and a floor in turns in the same run, and leaves a table, a plot
and JSON in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import uvloop

from benchmarks import (
    append,
    bookie,
    capacity,
    deletions,
    full,
    latency,
    long_log,
    many_logs,
    memory,
    read,
    seek,
    shapes,
    startup,
    storage,
    takeover,
)
from benchmarks.availability import run as availability
from benchmarks.hour import run as hour
from benchmarks.options import Options, quick
from benchmarks.stores import SQLITE, ZOOKEEPER
from tests.helpers.kafka.libs import KafkaMissingError, find_kafka


class Finished(Protocol):
    """What a benchmark found."""

    def finish(self, results: Path | None) -> None:
        """Print it, and write it to this directory."""


_BENCHMARKS: dict[str, Callable[[Options], Coroutine[Any, Any, Finished]]] = {
    "append": append.run,
    "read": read.run,
    "takeover": takeover.run,
    "memory": memory.run,
    "startup": startup.run,
    "deletions": deletions.run,
    "bookie": bookie.run,
}
_OF_LOGS: dict[str, Callable[[Options], Coroutine[Any, Any, Finished]]] = {
    "latency": latency.run,
    "many_logs": many_logs.run,
    "long_log": long_log.run,
    "seek": seek.run,
    "availability": availability.run,
}
"""On SQLite and on ZooKeeper, or on what --stores names; only when they are named."""

_OF_STORAGES: dict[str, Callable[[Options], Coroutine[Any, Any, Finished]]] = {
    "storage": storage.run,
    "capacity": capacity.run,
    "shapes": shapes.run,
    "full": full.run,
}
"""Only when they are named."""

_OF_LOSSES: dict[str, Callable[[Options], Coroutine[Any, Any, Finished]]] = {"hour": hour.run}
"""Only when it is named; on SQLite, or on the first that --stores names."""

_WITH_JAVA = "interop"
_WITH_SPARK = ("spark_scan", "spark_sink", "spark_stream")
_NAMES = (*_BENCHMARKS, *_OF_LOGS, *_OF_STORAGES, *_OF_LOSSES, _WITH_JAVA, *_WITH_SPARK)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_NAMES)}")
    parser.add_argument("--quick", action="store_true", help="seconds in all, prints only")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; the system's by default")
    parser.add_argument("--rounds", type=int, help="of every contender")
    parser.add_argument("--seconds", type=float, help="of one measurement of throughput")
    parser.add_argument("--entry-bytes", type=int, nargs="+", help="sizes for `append`")
    parser.add_argument("--stores", nargs="+", choices=(SQLITE, ZOOKEEPER), help="of the benchmarks of logs")
    parser.add_argument("--trials", type=int, help="of each outage, for `availability`")
    parser.add_argument("--minutes", type=float, help="of `hour`, with all its times in proportion")
    parser.add_argument(
        "--kafka", action="store_true", help="compare `spark_scan` with Spark's Kafka source, too"
    )
    parser.add_argument("--cores", type=int, nargs="+", help="of the sessions of `spark_scan`")
    parser.add_argument("--bytes", type=int, help="written by `memory`")
    parser.add_argument("--results", type=Path, help="directory for tables and plots")
    found = parser.parse_args()
    if unknown := set(found.names) - set(_NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}: use {', '.join(_NAMES)}")
    if found.kafka:
        try:
            find_kafka()
        except KafkaMissingError as missing:
            parser.error(str(missing))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name in found.names or _BENCHMARKS:
            options = _options(found)
            if name in _BENCHMARKS | _OF_LOSSES and found.stores is None:
                options = replace(options, stores=(SQLITE,))  # they need no Java
            report = runner.run(_benchmark(name)(options))
            report.finish(options.results)


def _benchmark(name: str) -> Callable[[Options], Coroutine[Any, Any, Finished]]:
    if name == _WITH_JAVA:
        from benchmarks import interop

        return interop.run
    if name in _WITH_SPARK:
        from benchmarks.spark import scan, sink, stream

        return {"spark_scan": scan.run, "spark_sink": sink.run, "spark_stream": stream.run}[name]
    return (_BENCHMARKS | _OF_LOGS | _OF_STORAGES | _OF_LOSSES)[name]


def _options(found: argparse.Namespace) -> Options:
    directory = found.directory or Path(tempfile.gettempdir())
    options = quick(directory) if found.quick else Options(directory=directory)
    options = replace(options, kafka=found.kafka)
    if found.entry_bytes is not None:
        options = replace(options, entry_bytes=tuple(found.entry_bytes))
    if found.cores is not None:
        options = replace(options, spark_cores=tuple(found.cores))
    if found.bytes is not None:
        options = replace(options, written_bytes=found.bytes)
    if found.stores is not None:
        options = replace(options, stores=tuple(found.stores))
    for name in ("rounds", "seconds", "minutes", "trials", "results"):
        if getattr(found, name) is not None:
            options = replace(options, **{name: getattr(found, name)})
    return options


if __name__ == "__main__":
    main()
