"""The benchmarks: `python -m benchmarks [NAME ...] [--quick]`, all of them unless some are named.

`interop` compares with Apache's client and runs only when it is named: it needs Java and Apache's jars.

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
from typing import Any

import uvloop

from benchmarks import append, deletions, memory, read, startup, takeover
from benchmarks.options import Options, quick
from benchmarks.report import Report

_BENCHMARKS = {
    "append": append.run,
    "read": read.run,
    "takeover": takeover.run,
    "memory": memory.run,
    "startup": startup.run,
    "deletions": deletions.run,
}
_WITH_JAVA = "interop"
_NAMES = (*_BENCHMARKS, _WITH_JAVA)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_NAMES)}")
    parser.add_argument("--quick", action="store_true", help="seconds in all, prints only")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; the system's by default")
    parser.add_argument("--rounds", type=int, help="of every contender")
    parser.add_argument("--seconds", type=float, help="of one measurement of throughput")
    parser.add_argument("--entry-bytes", type=int, nargs="+", help="sizes for `append`")
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


def _benchmark(name: str) -> Callable[[Options], Coroutine[Any, Any, Report]]:
    if name != _WITH_JAVA:
        return _BENCHMARKS[name]
    from benchmarks import interop

    return interop.run


def _options(found: argparse.Namespace) -> Options:
    directory = found.directory or Path(tempfile.gettempdir())
    options = quick(directory) if found.quick else Options(directory=directory)
    if found.entry_bytes is not None:
        options = replace(options, entry_bytes=tuple(found.entry_bytes))
    if found.bytes is not None:
        options = replace(options, written_bytes=found.bytes)
    for name in ("rounds", "seconds", "results"):
        if getattr(found, name) is not None:
            options = replace(options, **{name: getattr(found, name)})
    return options


if __name__ == "__main__":
    main()
