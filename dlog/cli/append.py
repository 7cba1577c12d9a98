"""`dlog append`: input to durable messages, as fast as the input comes."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Protocol

import typer

from dlog.cli.input_formats import Group, InputFormat, read_messages
from dlog.cli.options import LogName, Metadata, Namespace, connect

if TYPE_CHECKING:
    from dlog.model import MessageId

CHUNK_BYTES = 1 << 20
PENDING_MAX = 20_000
"""Appends on their way at once. The writer's own limit is by bytes; this one bounds very small messages."""


class Pending(Protocol):
    """A submitted append: what `Writer.submit` returns."""

    def done(self) -> bool: ...
    def result(self) -> MessageId: ...


class Acknowledged:
    """Counts appends as they become durable, in the order in which they were submitted."""

    def __init__(self) -> None:
        self.count = 0
        self.first: MessageId | None = None
        self.last: MessageId | None = None
        self._pending: deque[Pending] = deque()

    def add(self, append: Pending) -> None:
        self._pending.append(append)

    def collect(self, leave: int) -> int:
        """Take what is acknowledged; wait until at most `leave` appends are on their way."""
        before = self.count
        while self._pending and (len(self._pending) > leave or self._pending[0].done()):
            self.last = self._pending[0].result()
            self._pending.popleft()
            self.first = self.first or self.last
            self.count += 1
        return self.count - before

    def summary(self) -> str:
        if not self.count:
            return "no message was acknowledged"
        noun = "message" if self.count == 1 else "messages"
        return f"{self.count:,} {noun} acknowledged, {self.first} to {self.last}"

    @property
    def open_count(self) -> int:
        return len(self._pending)


def register(app: typer.Typer) -> None:
    app.command()(append)


def append(
    log: LogName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to append, or - for stdin.")] = "-",
    form: Annotated[
        InputFormat, typer.Option("--format", help="How the input is split.")
    ] = InputFormat.LINES,
    key_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column (csv) or member (jsonl) that becomes the key.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the log if it does not exist.")] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Append messages from stdin or a file.

    One a line, or as --format says. Takes the log over from whoever writes it now. Prints the first and the
    last id when all is durable.
    """
    with (
        _input(file) as (source, size),
        connect(metadata, namespace) as client,
        client.open_writer(log, create=create) as writer,
        _progress(size) as advance,
    ):
        groups = read_messages(_chunks(source, advance), form, key_column)
        _append_all(groups, writer.submit)


def _append_all(groups: Iterator[Group], submit: Callable[..., Pending]) -> None:
    acknowledged = Acknowledged()
    complete = False
    try:
        for group in groups:
            for key, payload in group:
                acknowledged.add(submit(payload, key=key))
            acknowledged.collect(PENDING_MAX)
        acknowledged.collect(0)
        complete = True
    finally:
        if not complete:
            _say_what_is_there(acknowledged)
    print(acknowledged.summary().replace("acknowledged", "appended"))


def _say_what_is_there(acknowledged: Acknowledged) -> None:
    unknown = (
        f"; {acknowledged.open_count:,} more were sent and may be there" if acknowledged.open_count else ""
    )
    print(f"dlog: stopped early: {acknowledged.summary()}{unknown}", file=sys.stderr)


@contextmanager
def _input(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The input, unbuffered so that it arrives as it is written, and its size if it has one."""
    if file == "-":
        yield sys.stdin.buffer.raw if hasattr(sys.stdin.buffer, "raw") else sys.stdin.buffer, None
        return
    with Path(file).open("rb", buffering=0) as source:
        yield source, Path(file).stat().st_size


def _chunks(source: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        advance(len(chunk))
        yield chunk


@contextmanager
def _progress(size: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar by bytes of input on a terminal; nothing elsewhere."""
    if size is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("append", total=size)
        yield lambda amount: progress.advance(task, amount)
