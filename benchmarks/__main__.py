"""The benchmarks: `python -m benchmarks [NAME ...] [--quick]`, all of them unless some are named.

Some run only when they are named, since they need Java and Apache's jars: `interop` compares with Apache's client;
`latency`, `many_logs`, `long_log` and `availability` (half an hour) run on SQLite and on ZooKeeper, unless --stores
names one.

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

from benchmarks import append, deletions, latency, long_log, many_logs, memory, read, startup, takeover
from benchmarks.availability import run as availability
from benchmarks.options import Options, quick
from benchmarks.stores import SQLITE, ZOOKEEPER


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
}
_OF_LOGS: dict[str, Callable[[Options], Coroutine[Any, Any, Finished]]] = {
    "latency": latency.run,
    "many_logs": many_logs.run,
    "long_log": long_log.run,
    "availability": availability.run,
}
"""On SQLite and on ZooKeeper, or on what --stores names; only when they are named."""

_WITH_JAVA = "interop"
_NAMES = (*_BENCHMARKS, *_OF_LOGS, _WITH_JAVA)


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
    parser.add_argument("--bytes", type=int, help="written by `memory`")
    parser.add_argument("--results", type=Path, help="directory for tables and plots")
    found = parser.parse_args()
    if unknown := set(found.names) - set(_NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}: use {', '.join(_NAMES)}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name in found.names or _BENCHMARKS:
            options = _options(found)
            report = runner.run(_benchmark(name)(options))
            report.finish(options.results)


def _benchmark(name: str) -> Callable[[Options], Coroutine[Any, Any, Finished]]:
    if name == _WITH_JAVA:
        from benchmarks import interop

        return interop.run
    return (_BENCHMARKS | _OF_LOGS)[name]


def _options(found: argparse.Namespace) -> Options:
    directory = found.directory or Path(tempfile.gettempdir())
    options = quick(directory) if found.quick else Options(directory=directory)
    if found.entry_bytes is not None:
        options = replace(options, entry_bytes=tuple(found.entry_bytes))
    if found.bytes is not None:
        options = replace(options, written_bytes=found.bytes)
    if found.stores is not None:
        options = replace(options, stores=tuple(found.stores))
    for name in ("rounds", "seconds", "trials", "results"):
        if getattr(found, name) is not None:
            options = replace(options, **{name: getattr(found, name)})
    return options


if __name__ == "__main__":
    main()
