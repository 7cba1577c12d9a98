"""`dlog standalone`: a cluster of real bookie processes on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ledger.command_line import tell


def register(app: typer.Typer) -> None:
    app.command()(standalone)


def standalone(
    bookies: Annotated[int, typer.Option(min=1, max=64, help="How many bookies to run.")] = 3,
    data: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where everything is kept.")
    ] = Path("dlog-data"),
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="URI",
            help="Join the cluster at this address, made if missing, instead of one with SQLite in DIR.",
        ),
    ] = None,
) -> None:
    """Run a cluster on this machine.

    Real bookie processes, restarted when they die, with SQLite as the metadata store, or ZooKeeper with
    --metadata. Prints the address to connect to. What is in DIR is there again the next time. Ctrl-C stops it.
    """
    import shlex

    from dlog.local.embedded import Standalone

    with Standalone(data, bookies, metadata=metadata, report=tell) as cluster:
        try:
            uri = shlex.quote(cluster.uri)  # servers of ZooKeeper are separated by `;`
            tell(HELP.format(count=len(cluster.bookies), data=data.resolve(), uri=uri))
            cluster.wait()
        except KeyboardInterrupt:
            tell("stopping")


HELP = """\
{count} bookies run in {data}

    export DLOG_METADATA={uri}
    dlog create orders
    echo hello | dlog append orders
    dlog tail orders -f

Ctrl-C stops them; the data stays."""
