"""Options that several commands share, and connecting as they say."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dlog.cli.password import given_password, password_explained
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
        help="Metadata address of the cluster, as printed by `dlog standalone`.",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Namespace of the log.")]
LogName = Annotated[str, typer.Argument(metavar="LOG", help="Name of the log.")]

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="POSITION",
        help="First message: an id (LEDGER:ENTRY:BATCH), a time, how long ago (10m), or earliest.",
    ),
]
Until = Annotated[
    str,
    typer.Option(
        "--until",
        metavar="POSITION",
        help="Where to stop before: the same, or latest: the end of the log as of now.",
    ),
]


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"
    RAW = "raw"


class OnDataLoss(StrEnum):
    FAIL = "fail"
    GAP = "gap"


class TableOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


Messages = Annotated[
    Output,
    typer.Option(
        "--output", "-o", help="text: id, key and payload; json: one object per line; raw: payloads only."
    ),
]
Loss = Annotated[
    OnDataLoss,
    typer.Option(
        "--on-data-loss",
        help="At messages that are lost: fail, or gap: print their ids to stderr and go on.",
    ),
]
Table = Annotated[TableOutput, typer.Option("--output", "-o", help="Output format.")]


KeyDelimiter = Annotated[
    str | None,
    typer.Option(
        "--key-delimiter", "-K", metavar="TEXT", help="Text between key and payload of a line; \\t is a tab."
    ),
]


def delimiter_bytes(text: str) -> bytes:
    """The argument of -K. ConfigurationError: it is empty."""
    if not text:
        raise ConfigurationError("--key-delimiter is empty: give one or more characters")
    return os.fsencode(text.replace("\\t", "\t"))


@contextmanager
def connect(metadata: str, namespace: str, config: LogConfig | None = None) -> Iterator[Client]:
    """A blocking client, for commands that append or read."""
    import dlog

    _print_warnings()
    with (
        password_explained(),
        dlog.connect(_required(metadata), namespace=namespace, config=_with_password(config)) as client,
    ):
        yield client


def administer(metadata: str, namespace: str, work: Callable[[LogClient], Awaitable[T]]) -> T:
    """Connect, await `work(client)`, disconnect; returns its result."""
    from dlog.client import connect
    from ledger import whole_loop

    _print_warnings()

    async def run() -> T:
        async with await connect(_required(metadata), namespace, config=_with_password(None)) as client:
            return await work(client)

    with password_explained():
        return whole_loop.run(run())


def _with_password(config: LogConfig | None) -> LogConfig:
    from dlog.config import LogConfig

    return replace(config or LogConfig(), password=given_password())


def _print_warnings() -> None:
    """Print what the library logs to stderr, as `dlog: SENTENCE`."""
    import logging

    logging.basicConfig(format="dlog: %(message)s")


def _required(metadata: str) -> str:
    if metadata:
        return metadata
    raise ConfigurationError(
        "no cluster address: pass --metadata URI or set DLOG_METADATA; `dlog standalone` starts a local cluster "
        "and prints its address"
    )
