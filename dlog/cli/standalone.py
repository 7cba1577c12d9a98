"""`dlog standalone`: a cluster of real bookie processes on this machine, until Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(standalone)


def standalone(
    bookies: Annotated[int, typer.Option(min=1, max=64, help="How many bookies to run.")] = 3,
    data: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where everything is kept.")
    ] = Path("dlog-data"),
) -> None:
    """Run a cluster on this machine.

    Real bookie processes, restarted when they die, with SQLite as the metadata store. Prints the address to
    connect to. What is in DIR is there again the next time. Ctrl-C stops it.
    """
    from dlog.embedded import Standalone

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Standalone(data, bookies, report=_report) as cluster:
        print(HELP.format(count=len(cluster.bookies), data=data.resolve(), uri=cluster.uri), flush=True)
        try:
            cluster.wait()
        except KeyboardInterrupt:
            print("stopping", flush=True)


HELP = """\
{count} bookies run in {data}

    export DLOG_METADATA={uri}
    dlog create orders
    echo hello | dlog append orders
    dlog tail orders -f

Ctrl-C stops them; the data stays."""


def _report(event: str) -> None:
    print(event, flush=True)
