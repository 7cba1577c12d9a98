"""`dlog export`: write the messages of a log, or those between two positions, into one file. It only reads the log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dlog.cli.export.destination import STDOUT, Output, check_destination
from dlog.cli.export.formats import WRITERS, ExportFormat, check_format
from dlog.cli.export.progress import progress
from dlog.cli.options import From, LogName, Metadata, Namespace, Until, connect
from dlog.cli.positions import bounds_of
from ledger.command_line import say
from ledger.errors import LogStoreError


def register(app: typer.Typer) -> None:
    app.command()(export)


def export(
    log: LogName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write, or - for stdout.")],
    to: Annotated[
        ExportFormat,
        typer.Option(
            "--to",
            help="parquet: the columns of docs/arrow.md; jsonl: as `dlog read -o json` prints; csv: id, time, key, "
            "payload.",
        ),
    ],
    start: From = "earliest",
    until: Until = "latest",
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Write the messages of a log, or those between two ids or times, into a file.

    FILE appears when it is complete. Prints how many messages it has, and the position where the next export continues.
    """
    check_destination(file, force)
    check_format(to, file == STDOUT and sys.stdout.isatty())
    first, behind = bounds_of(log, start, until, metadata, namespace)
    count, target = 0, Output(file, force)
    with connect(metadata, namespace) as client, client.reader(log, start=first, until=behind) as reader:
        try:
            with target.opened() as output, progress(client, log, reader, behind) as advance:
                for written in WRITERS[to](reader, output):
                    count += written
                    advance(written)
        except BrokenPipeError:
            raise
        except (KeyboardInterrupt, LogStoreError, OSError):
            say("dlog", _early_end(count, file, is_in_place=target.is_in_place))
            raise
        if file != STDOUT:
            print(f"{_messages(count)} exported to {file}; continue with --from {reader.position}")


def _early_end(count: int, file: str, *, is_in_place: bool) -> str:
    if file == STDOUT:
        return f"stopped early: {_messages(count)} written"
    if is_in_place:
        found = f"stopped early: {_messages(count)} exported to {file}"
        return f"{found}, which is complete, but perhaps not yet on the disk"
    return f"stopped early: {_messages(count)} read, {file} was not written"


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
