"""`dlog read` and `dlog tail`: print messages. Both only read: they fence nothing and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import (
    From,
    KeyDelimiter,
    LogName,
    Loss,
    Messages,
    Metadata,
    Namespace,
    OnDataLoss,
    Output,
    Until,
    connect,
)
from dlog.cli.output import formatter, gap_sentence
from dlog.cli.positions import bounds_of
from dlog.cli.waiting import reporting_outages
from ledger.command_line import interrupt_without_reader, say
from ledger.printing import require_stdout

if TYPE_CHECKING:
    from dlog.blocking.reader import Reader
    from dlog.model import Message


def register(app: typer.Typer) -> None:
    app.command()(read)
    app.command()(tail)


def read(
    log: LogName,
    start: From = "earliest",
    until: Until = "latest",
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor",
            metavar="NAME",
            help="Continue where the last command with this cursor ended; the first one starts at --from.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", metavar="N", min=0, help="Maximum number of messages.")
    ] = None,
    on_data_loss: Loss = OnDataLoss.FAIL,
    output: Messages = Output.TEXT,
    key_delimiter: KeyDelimiter = None,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Print the messages of a log, or those between two ids or times.

    A time has the form 2013-01-05T12:30, in UTC unless it has a zone. Ids and times may be mixed.
    """
    require_stdout()
    as_bytes = formatter(output, key_delimiter)
    accept_loss = on_data_loss is OnDataLoss.GAP
    first, behind = bounds_of(log, start, until, metadata, namespace, accept_loss=accept_loss)
    with (
        connect(metadata, namespace) as client,
        reporting_outages(
            client.reader(log, first, until=behind, cursor=cursor, on_data_loss=on_data_loss)
        ) as reader,
    ):
        _print(_limited(_messages(reader), limit), as_bytes)
        if cursor is not None:
            reader.ack()


def tail(
    log: LogName,
    last: Annotated[
        int,
        typer.Option("-n", "--lines", metavar="N", min=0, help="Number of newest messages to print first."),
    ] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for new messages until Ctrl-C.")
    ] = False,
    on_data_loss: Loss = OnDataLoss.FAIL,
    output: Messages = Output.TEXT,
    key_delimiter: KeyDelimiter = None,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Print the newest messages, and with -f wait for more."""
    require_stdout()
    as_bytes = formatter(output, key_delimiter)
    start, until = None if last else "latest", None if follow else "latest"
    try:
        with (
            connect(metadata, namespace) as client,
            reporting_outages(
                client.reader(log, start, last=last or None, until=until, on_data_loss=on_data_loss)
            ) as reader,
        ):
            if follow:
                interrupt_without_reader()
            _print(_messages(reader), as_bytes)
    except KeyboardInterrupt:
        # Ctrl-C is how following ends, so it is not a failure, nor is it before the cluster has answered.
        if not follow:
            raise


def _messages(reader: Reader) -> Iterator[Message]:
    """Gaps go to stderr."""
    from dlog.core.tailing import Gap

    for item in reader.items():
        if isinstance(item, Gap):
            say("dlog", gap_sentence(item))
        else:
            yield item


def _limited(messages: Iterable[Message], limit: int | None) -> Iterable[Message]:
    if limit is None:
        return messages
    from itertools import islice

    return islice(messages, min(limit, sys.maxsize))


def _print(messages: Iterable[Message], as_bytes: Callable[[Message], bytes]) -> None:
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for message in messages:
        write(as_bytes(message))
        flush()
