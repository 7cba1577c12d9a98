"""`dlog cursor`: list, set and remove the positions of a log's consumers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, administer
from dlog.cli.positions import as_datetime, position_of
from ledger.errors import ConfigurationError
from ledger.printing import print_json, print_table

if TYPE_CHECKING:
    from datetime import datetime

    from dlog.client import LogClient
    from dlog.model import Cursor, MessageId
    from dlog.read.backlog import Lag

CursorName = Annotated[str, typer.Argument(metavar="CURSOR", help="Name of the cursor.")]

_COLUMNS = ("cursor", "position", "messages_behind", "bytes_behind", "ledgers_behind", "changed")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Show and set cursors: where the consumers of a log continue.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command(name="ls")(list_cursors)
    group.command(name="set")(set_cursor)
    group.command(name="rm")(remove_cursor)
    app.add_typer(group, name="cursor")


def list_cursors(
    log: LogName, metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT
) -> None:
    """List the cursors of a log, and how far they are behind its end.

    JSON output also has the properties that consumers stored.
    """
    from dlog.cli.output import json_instant, to_the_second

    found = administer(metadata, namespace, lambda client: _cursors(client, log))
    if output is TableOutput.JSON:
        print_json(
            [
                {
                    "cursor": cursor.name,
                    "position": str(cursor.position),
                    "messages_behind": None if lag is None else lag.messages,
                    "bytes_behind": None if lag is None else lag.bytes,
                    "entries_behind": None if lag is None else lag.entries,
                    "ledgers_behind": None if lag is None else lag.ledgers,
                    "changed": json_instant(cursor.updated_us),
                    "properties": dict(cursor.properties),
                }
                for cursor, lag in found
            ]
        )
        return
    rows = [
        (
            cursor.name,
            str(cursor.position),
            None if lag is None else lag.messages,
            None if lag is None else lag.bytes,
            None if lag is None else lag.ledgers,
            to_the_second(cursor.updated_us),
        )
        for cursor, lag in found
    ]
    print_table(_COLUMNS, rows)


async def _cursors(client: LogClient, log: str) -> list[tuple[Cursor, Lag | None]]:
    """The cursors and how far they are behind the end; None if the messages that this depends on cannot be read.

    Neither can those of a log whose password is not given.
    """
    from dlog.errors import CursorNotFoundError, DataLossError, EntryFormatError
    from dlog.together import each
    from ledger.errors import DigestMismatchError, ReadError, UnauthorizedError

    async def measured(cursor: Cursor) -> list[tuple[Cursor, Lag | None]]:
        try:
            return [(cursor, await client.cursor_lag(log, cursor.name))]
        except CursorNotFoundError:
            return []  # removed in the meantime
        except (ReadError, UnauthorizedError):
            return [(cursor, None)]
        except (DataLossError, DigestMismatchError, EntryFormatError):
            return [(cursor, None)]

    found = await each(await client.cursors(log), measured)
    return [one for of_cursor in found for one in of_cursor]


def set_cursor(
    log: LogName,
    cursor: CursorName,
    position: Annotated[
        str,
        typer.Argument(
            metavar="POSITION",
            help="Next message: an id (LEDGER:ENTRY:BATCH), a time, how long ago (10m), earliest or latest.",
        ),
    ],
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Set a cursor, forward or back, or create it.

    A consumer that runs with it stops at its next acknowledgement; started again, it continues at the position.
    """
    where = position_of(position, time.time_ns() // 1000, as_datetime)
    found = administer(metadata, namespace, lambda client: _set(client, log, cursor, where))
    print(f"cursor {cursor} of log {log} is at {found.position}")


async def _set(client: LogClient, log: str, cursor: str, where: MessageId | datetime | str) -> Cursor:
    """ConfigurationError: an id whose message was trimmed, so that no reader could begin there."""
    from dlog.model import MessageId

    if isinstance(where, MessageId):
        begin = (await client.describe(log)).record.trim_before
        if where < begin:
            raise ConfigurationError(
                f"position {where} of log {log} was trimmed: it begins at {begin}; use an id from there on, or earliest"
            )
    return await client.set_cursor(log, cursor, where)


def remove_cursor(
    log: LogName, cursor: CursorName, metadata: Metadata = "", namespace: Namespace = "default"
) -> None:
    """Remove a cursor. A consumer that runs with it stops at its next acknowledgement."""
    administer(metadata, namespace, lambda client: client.delete_cursor(log, cursor))
    print(f"removed cursor {cursor} of log {log}")
