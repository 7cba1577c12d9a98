"""`dlog read` and `dlog tail`: print messages. Both only read: they fence nothing and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Messages, Metadata, Namespace, Output, connect
from dlog.cli.output import formatter
from ledger.command_line import interrupt_without_reader

if TYPE_CHECKING:
    from dlog.model import Message, MessageId


def register(app: typer.Typer) -> None:
    app.command()(read)
    app.command()(tail)


def read(
    log: LogName,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="ID", help="Id of the first message (LEDGER:ENTRY:BATCH), or earliest."
        ),
    ] = "earliest",
    until: Annotated[
        str,
        typer.Option(
            "--until", metavar="ID", help="Id to stop before, or latest: the end of the log as of now."
        ),
    ] = "latest",
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=0, help="Maximum number of messages.")
    ] = None,
    output: Messages = Output.TEXT,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Print the messages of a log, or those between two ids."""
    bounds = (_bound(start), _bound(until))
    with (
        connect(metadata, namespace) as client,
        client.reader(log, start=bounds[0], until=bounds[1]) as reader,
    ):
        _print(_limited(reader, limit), output)


def tail(
    log: LogName,
    last: Annotated[
        int, typer.Option("-n", "--lines", min=0, help="Number of newest messages to print first.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for new messages until Ctrl-C.")
    ] = False,
    output: Messages = Output.TEXT,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Print the newest messages, and with -f wait for more."""
    with connect(metadata, namespace) as client, client.tail(log, last=last or None, follow=follow) as reader:
        try:
            if follow:
                interrupt_without_reader()
            _print(reader, output)
        except KeyboardInterrupt:
            # Ctrl-C is how following ends, so it is not a failure.
            if not follow:
                raise


def _bound(text: str) -> MessageId | str:
    from dlog.model import MessageId

    return text if text in ("earliest", "latest") else MessageId.parse(text)


def _limited(messages: Iterable[Message], limit: int | None) -> Iterable[Message]:
    if limit is None:
        return messages
    from itertools import islice

    return islice(messages, limit)


def _print(messages: Iterable[Message], output: Output) -> None:
    as_bytes = formatter(output)
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for message in messages:
        write(as_bytes(message))
        flush()
