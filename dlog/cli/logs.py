"""Commands on logs as a whole: create, ls, info, ledgers, rotate, shrink, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, connect
from dlog.cli.output import print_facts, print_json, print_table

if TYPE_CHECKING:
    pass


def register(app: typer.Typer) -> None:
    for command in (create, ls, info, ledgers, rotate, shrink, delete):
        app.command()(command)


def create(log: LogName, metadata: Metadata = "", namespace: Namespace = "default") -> None:
    """Create an empty log."""
    with connect(metadata, namespace) as client:
        client.create(log)
    print(f"created {log}")


def ls(metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT) -> None:
    """List the logs of a namespace."""
    with connect(metadata, namespace) as client:
        names = client.list()
    if output is TableOutput.JSON:
        print_json(names)
        return
    for name in names:
        print(name)


def info(
    log: LogName, metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT
) -> None:
    """Show a log's owner and size."""
    with connect(metadata, namespace) as client:
        facts = describe_facts(client.describe(log))
    if output is TableOutput.JSON:
        print_json({name.replace(" ", "_"): value for name, value in facts})
    else:
        print_facts(facts)


def ledgers(
    log: LogName, metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT
) -> None:
    """List the ledgers of a log, oldest first."""
    with connect(metadata, namespace) as client:
        rows = [ledger_row(listed) for listed in client.describe(log).record.ledgers]
    if output is TableOutput.JSON:
        print_json(rows)
    else:
        print_table(LEDGER_COLUMNS, [[row[name] for name in LEDGER_COLUMNS] for row in rows])


def rotate(log: LogName, metadata: Metadata = "", namespace: Namespace = "default") -> None:
    """Take the log over and begin a new ledger."""
    with connect(metadata, namespace) as client:
        print(f"log {log} goes on in ledger {client.rotate(log)}")


def shrink(
    log: LogName,
    before: Annotated[str, typer.Argument(metavar="ID", help="The first id to keep.")],
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Drop messages before an id.

    They become invisible at once; ledgers that lie wholly before the id are freed.
    """
    from dlog.model import MessageId

    bound = MessageId.parse(before)
    with connect(metadata, namespace) as client:
        client.shrink(log, bound)
    print(f"log {log} begins at {bound}")


def delete(
    log: LogName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Delete a log and everything in it."""
    if not yes:
        typer.confirm(f"Delete log {log} and all its messages for good?", abort=True, err=True)
    with connect(metadata, namespace) as client:
        client.delete(log)
    print(f"deleted {log}")


LEDGER_COLUMNS = ("ledger", "epoch", "state", "entries", "messages", "bytes", "created", "first", "last")


def ledger_row(listed: ListedLedger) -> dict[str, object]:
    """One line of `dlog ledgers`; what only the seal tells is `-` before it is recorded."""
    facts = listed.seal
    row: dict[str, object] = dict.fromkeys(LEDGER_COLUMNS, "-")
    row |= {"ledger": listed.ledger_id, "epoch": listed.epoch, "created": instant(listed.created_us)}
    if facts is None:
        return row | {"state": "open"}
    return row | {
        "state": "sealed",
        "entries": facts.last_entry + 1,
        "messages": facts.message_count if facts.message_count >= 0 else "-",
        "bytes": facts.byte_count,
        "first": instant(facts.first_append_us),
        "last": instant(facts.last_append_us),
    }
