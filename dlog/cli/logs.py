"""Commands on logs as a whole: create, ls, info, ledgers, rotate, shrink, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, connect
from dlog.cli.output import instant, print_facts, print_json, print_table

if TYPE_CHECKING:
    from dlog.model import ListedLedger


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
