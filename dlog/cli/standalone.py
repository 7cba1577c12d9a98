"""`dlog standalone`: a cluster of bookie processes on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ledger.command_line import tell
from ledger.errors import ConfigurationError
from ledger.printing import counted


def _directory(text: str) -> Path:
    """The argument of --data. ConfigurationError: it is empty, as an unset variable is, or cannot be one."""
    if not text:
        raise ConfigurationError("--data is empty: give a directory, or leave the option out")
    try:
        is_file = Path(text).is_file()
    except OSError as error:
        raise ConfigurationError(
            f"--data {text} cannot be a directory: {error.strerror}; give another one"
        ) from error
    if is_file:
        raise ConfigurationError(f"--data {text} is a file: give a directory")
    return Path(text)


def register(app: typer.Typer) -> None:
    app.command()(standalone)


def standalone(
    bookies: Annotated[int, typer.Option(min=1, max=64, help="Number of bookies.")] = 3,
    data: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            parser=_directory,
            help="Directory for the bookies' data and the SQLite database; created if missing.",
        ),
    ] = Path("dlog-data"),
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="URI",
            help="Metadata store to use instead of SQLite in DIR; a cluster is created there if there is none.",
        ),
    ] = None,
) -> None:
    """Run a cluster on this machine.

    Starts bookie processes, restarts those that die, and prints the address to connect to. The metadata store is
    SQLite, or ZooKeeper with --metadata. Stop it with Ctrl-C; started again on the same DIR, it has the same logs.
    """
    import shlex
    from contextlib import ExitStack

    from dlog.local.embedded import Standalone

    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(Standalone(data, bookies, metadata=metadata, report=tell))
            uri = shlex.quote(cluster.uri)  # servers of ZooKeeper are separated by `;`
            count = len(cluster.bookies)
            running = f"{counted(count, 'bookie')} {'is' if count == 1 else 'are'}"
            tell(HELP.format(running=running, data=data.resolve(), uri=uri))
            cluster.wait()
        except KeyboardInterrupt:  # also while it starts
            tell("stopping")


HELP = """\
{running} running, data in {data}

    export DLOG_METADATA={uri}
    dlog create orders
    echo hello | dlog append orders
    dlog tail orders -f

Ctrl-C stops them and keeps the data."""
