"""The command line options that say how `dlog append` reads its input."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dlog.cli.input.csv_rows import Columns
from dlog.cli.input.formats import InputFormat
from dlog.cli.input.message import Headers
from ledger.errors import ConfigurationError

Format = Annotated[InputFormat, typer.Option("--format", help="How the input is split into messages.")]
Gzip = Annotated[
    bool, typer.Option("--gzip", help="The input is compressed; a FILE that ends in .gz always is.")
]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="Key of every message.")]
KeyColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column (csv) or member (jsonl) to use as the key.")
]
PayloadColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column (csv) to use as the payload; default: the row.")
]
CsvColumns = Annotated[
    Columns,
    typer.Option(help="Append a csv row as it is, as a JSON object, or with its columns as headers."),
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Header of every message; may be given several times."),
]
Tombstones = Annotated[
    bool, typer.Option("--tombstones", "-Z", help="Append an empty payload as a tombstone.")
]


def parsed_headers(texts: list[str]) -> Headers:
    """The arguments of --header. ConfigurationError: one is not NAME=VALUE."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--header {text!r} is not NAME=VALUE")
        found.append((os.fsencode(name), os.fsencode(value)))
    return tuple(found)
