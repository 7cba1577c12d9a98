"""`dlog properties`: show and change what is stored with a log."""

from __future__ import annotations

from typing import Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, administer
from ledger.errors import ConfigurationError
from ledger.printing import print_facts, print_json


def register(app: typer.Typer) -> None:
    app.command()(properties)


def properties(
    log: LogName,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What to set; NAME= removes one.")
    ] = None,
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Show what programs have stored with a log, or change some of it."""
    from dlog.cli.output import printable

    wanted = _changes(changes or [])
    if wanted:
        found = administer(metadata, namespace, lambda client: client.update_properties(log, wanted))
    else:
        found = administer(metadata, namespace, lambda client: client.properties(log))
    if output is TableOutput.JSON:
        print_json(found)
    elif found:
        print_facts({printable(name.encode()): printable(value.encode()) for name, value in found.items()})


def _changes(texts: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, value in map(_change, texts):
        if name in found:
            raise ConfigurationError(f"property {name[:80]!r} is given twice: give each name once")
        found[name] = value
    return found


def _change(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"a property must have the form NAME=VALUE, got {text[:80]!r}")
    return name, value or None
