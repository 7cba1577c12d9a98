"""Options that several verbs of `bookie` have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


MetadataOption = Annotated[
    str,
    typer.Option("--metadata", help="Address of the metadata store.", metavar="URI", envvar="DLOG_METADATA"),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option(
        help="What the log on stderr shows: debug, info, warning or error (default: info).", metavar="LEVEL"
    ),
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]
