"""Options that several commands share, and the connection that they describe."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from dlog.sync import Client

Metadata = Annotated[
    str,
    typer.Option(
        "--metadata",
        envvar="DLOG_METADATA",
        metavar="URI",
        help="Address of the cluster, as `dlog standalone` prints it, or DLOG_METADATA.",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Group of logs to work in.")]
LogName = Annotated[str, typer.Argument(metavar="LOG", help="Name of the log.")]


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"
    RAW = "raw"


class TableOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


Messages = Annotated[
    Output, typer.Option("--output", "-o", help="text for people, json for programs, raw for payloads.")
]
Table = Annotated[TableOutput, typer.Option("--output", "-o", help="text for people, json for programs.")]


def connect(metadata: str, namespace: str) -> Client:
    """The blocking client for these options; a missing address is an error that says where to get one."""
    if not metadata:
        raise ConfigurationError(
            "no cluster to connect to: give --metadata URI or set DLOG_METADATA, "
            "and start a cluster with `dlog standalone` if there is none"
        )
    import dlog

    return dlog.connect(metadata, namespace=namespace)
