"""Options that several commands share, and the connection that they describe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from dlog.blocking.client import Client
    from dlog.client import LogClient
    from dlog.config import LogConfig

T = TypeVar("T")

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


def connect(metadata: str, namespace: str, config: LogConfig | None = None) -> Client:
    """The blocking client, for commands that move messages."""
    import dlog

    _print_warnings()
    return dlog.connect(_required(metadata), namespace=namespace, config=config)


def administer(metadata: str, namespace: str, work: Callable[[LogClient], Awaitable[T]]) -> T:
    """Connect, do one thing, disconnect."""
    import asyncio

    from dlog.client import connect

    _print_warnings()

    async def run() -> T:
        async with await connect(_required(metadata), namespace) as client:
            return await work(client)

    return asyncio.run(run())


def _print_warnings() -> None:
    """What the library logs while it works goes to stderr in the form of our other sentences."""
    import logging

    logging.basicConfig(format="dlog: %(message)s")


def _required(metadata: str) -> str:
    if metadata:
        return metadata
    raise ConfigurationError(
        "no cluster to connect to: give --metadata URI or set DLOG_METADATA, "
        "and start a cluster with `dlog standalone` if there is none"
    )
