"""`dlog standalone`: a cluster of bookie processes on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ledger.command_line import tell
from ledger.errors import ConfigurationError, MetadataUnavailableError
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
    bookies: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=64, help="Number of bookies; appends need 2, and have 3 copies with 3."
        ),
    ] = 3,
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
    from contextlib import ExitStack, suppress

    from dlog.local.embedded import Standalone
    from ledger import whole_loop

    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(Standalone(data, bookies, metadata=metadata, report=tell))
            uri = shlex.quote(cluster.uri)  # servers of ZooKeeper are separated by `;`
            count = len(cluster.bookies)
            running = f"{counted(count, 'bookie')} {'is' if count == 1 else 'are'}"
            copies = ""
            with suppress(MetadataUnavailableError):  # the bookies run, and so does the cluster
                copies = copies_line(whole_loop.run(_writable(cluster.uri)))
            tell(HELP.format(running=running, data=data.resolve(), copies=copies, uri=uri))
            cluster.wait()
        except KeyboardInterrupt:  # also while it starts
            tell("stopping")


async def _writable(uri: str) -> int:
    """Number of bookies that can be written, also those of the cluster that run elsewhere."""
    from ledger.metadata.drivers import open_store

    store = await open_store(uri)
    try:
        return len((await store.bookies()).writable)
    finally:
        await store.close()


def copies_line(writable: int) -> str:
    """A line about the copies of what is appended now; none if they are all there."""
    from dlog.config import LogConfig

    quorum = LogConfig().quorum
    if writable >= quorum.write:
        return ""
    now = "nothing can be appended now" if writable < quorum.ack else f"they have {writable} copies now"
    return (
        f"appends need {quorum.ack} writable bookies, and have {quorum.write} copies with {quorum.write}: "
        f"{now}, with {writable}\n"
    )


HELP = """\
{running} running, data in {data}
{copies}
    export DLOG_METADATA={uri}
    dlog create orders
    echo hello | dlog append orders
    dlog tail orders -f

Ctrl-C stops them and keeps the data."""
