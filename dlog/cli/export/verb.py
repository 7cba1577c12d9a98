"""`dlog export`: write the messages of a log, or those between two positions, into one file. It only reads the log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.export.destination import STDOUT, Output, check_destination
from dlog.cli.export.formats import WRITERS, ExportFormat, Source, check_format
from dlog.cli.export.progress import progress
from dlog.cli.options import From, LogName, Loss, Metadata, Namespace, OnDataLoss, Until, connect
from dlog.cli.output import gap_sentence
from dlog.cli.positions import bounds_of
from dlog.cli.waiting import reporting_outages
from ledger.command_line import say
from ledger.errors import LogStoreError
from ledger.printing import counted

if TYPE_CHECKING:
    from dlog.core.tailing import Gap


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
    on_data_loss: Loss = OnDataLoss.FAIL,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Write the messages of a log, or those between two ids or times, into a file.

    FILE appears when it is complete. Prints how many messages it has, and the position where the next export continues.
    """
    check_destination(file, force)
    check_format(to, file == STDOUT and sys.stdout.isatty())
    accept_loss = on_data_loss is OnDataLoss.GAP
    first, behind = bounds_of(log, start, until, metadata, namespace, accept_loss=accept_loss)
    count, target, gaps = 0, Output(file, force), _Gaps()
    with (
        connect(metadata, namespace) as client,
        reporting_outages(client.reader(log, start=first, until=behind, on_data_loss=on_data_loss)) as reader,
    ):
        source = Source(log, reader, gaps.report if accept_loss else None)
        try:
            with (
                target.opened() as output,
                progress(client, log, reader, behind, to_stdout=file == STDOUT) as advance,
            ):
                for written in WRITERS[to](source, output):
                    count += written
                    advance(written)
        except BrokenPipeError:
            raise
        except (KeyboardInterrupt, LogStoreError, OSError):
            say("dlog", _early_end(count, file, is_in_place=target.is_in_place))
            raise
        if file != STDOUT:
            exported = f"{_messages(count)} exported to {file}{gaps.so_far()}"
            print(f"{exported}; continue with --from {reader.position}")


class _Gaps:
    """What is missing in the file."""

    def __init__(self) -> None:
        self._count = 0

    def report(self, gap: Gap) -> None:
        self._count += 1
        say("dlog", gap_sentence(gap))

    def so_far(self) -> str:
        """The part of a sentence that says so."""
        return f", {counted(self._count, 'gap')} passed over" if self._count else ""


def _early_end(count: int, file: str, *, is_in_place: bool) -> str:
    if file == STDOUT:
        return f"stopped early: {_messages(count)} written"
    if is_in_place:
        found = f"stopped early: {_messages(count)} exported to {file}"
        return f"{found}, which is complete, but perhaps not yet on the disk"
    return f"stopped early: {_messages(count)} read, {file} was not written"


def _messages(count: int) -> str:
    return counted(count, "message")
