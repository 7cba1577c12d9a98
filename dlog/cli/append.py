"""`dlog append`: append messages from a file or from stdin, as fast as they are read."""

from __future__ import annotations

import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Protocol

import typer

from dlog.cli.input_formats import Group, InputFormat, Keyed, read_messages
from dlog.cli.options import LogName, Metadata, Namespace, connect
from dlog.errors import MessageTooLargeError
from ledger.command_line import say
from ledger.errors import ConfigurationError, LogStoreError, OutcomeUnknownError

if TYPE_CHECKING:
    from dlog.config import LogConfig
    from dlog.model import MessageId

CHUNK_BYTES = 1 << 20
RUN_MESSAGES, RUN_BYTES = 1_000, 256 * 1024
"""Limits of a run, which is appended as one entry: enough for full speed, well below an entry's limit."""
CHECK_INTERVAL_S = 0.25
"""How often acknowledgements are checked while the input has nothing."""
PENDING_MAX = 64
"""Runs in flight: some 16 MiB of large messages, less of small ones."""

TIMEOUT_S = 30.0
"""Longer than a restart of a bookie or metadata store. The library's default (`hold_limit_s`) is two minutes, since
no one watches a program."""


class Pending(Protocol):
    """A run in flight, as `Writer.submit_many` returns it."""

    def done(self) -> bool: ...
    def result(self) -> Sequence[MessageId]: ...


class Acknowledged:
    """Counts messages as they become durable, in the order in which they were submitted."""

    def __init__(self) -> None:
        self.count = 0
        self.first: MessageId | None = None
        self.last: MessageId | None = None
        self._unknown = 0
        """Number of messages with unknown outcome: they were in flight when the writer lost the log."""
        self._pending: deque[tuple[int, Pending]] = deque()

    def add(self, count: int, run: Pending) -> None:
        self._pending.append((count, run))

    def collect(self, leave: int) -> None:
        """Count what is acknowledged; wait until at most `leave` runs are in flight."""
        while self._pending and (len(self._pending) > leave or self._pending[0][1].done()):
            ids = self._pending[0][1].result()
            self._pending.popleft()
            self.first, self.last = self.first or ids[0], ids[-1]
            self.count += len(ids)

    def collect_done(self) -> None:
        """Count what is acknowledged, without waiting. Raises the error of a run that failed."""
        self.collect(len(self._pending))

    def settle(self) -> None:
        """Wait for the outcome of every run in flight. Raises nothing: failures are counted."""
        while self._pending:
            try:
                self.collect(0)
            except OutcomeUnknownError:
                self._unknown += self._pending.popleft()[0]
            except LogStoreError:
                self._pending.popleft()

    def summary(self, verb: str) -> str:
        if not self.count:
            return f"no messages were {verb}"
        noun = "message" if self.count == 1 else "messages"
        return f"{self.count:,} {noun} {verb}, {self.first} to {self.last}"

    def early_end(self) -> str:
        """The summary after a failure: what is acknowledged, and how many more may have been appended."""
        unknown = self._unknown + sum(count for count, _ in self._pending)
        return self.summary("acknowledged") + (
            f"; {unknown:,} more may or may not have been appended" if unknown else ""
        )


def register(app: typer.Typer) -> None:
    app.command()(append)


def append(
    log: LogName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to read, or - for stdin.")] = "-",
    form: Annotated[
        InputFormat, typer.Option("--format", help="How the input is split into messages.")
    ] = InputFormat.LINES,
    key_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column (csv) or member (jsonl) to use as the key.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the log if it does not exist.")] = False,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="Fail if an append is not durable after this time."
        ),
    ] = TIMEOUT_S,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Append messages from a file or stdin.

    Each line is a message, unless --format says otherwise. Takes the log over: its current writer is fenced.
    Prints the first and the last message id once all messages are durable.
    """
    with _input(file) as (source, size), _progress(size) as advance:
        acknowledged = Acknowledged()
        groups = read_messages(_chunks(source, advance, acknowledged.collect_done), form, key_column)
        if size is not None:
            groups = _begun(groups)
        config = _config(timeout_s)
        with connect(metadata, namespace, config) as client, client.open_writer(log, create=create) as writer:
            _append_all(groups, writer.submit_many, acknowledged)


def _config(timeout_s: float) -> LogConfig:
    from dlog.config import LogConfig

    if timeout_s <= 0:
        raise ConfigurationError(f"--timeout must be positive, got {timeout_s:g}")
    return LogConfig(hold_limit_s=timeout_s, takeover_timeout_s=timeout_s)


def _begun(groups: Iterator[Group]) -> Iterator[Group]:
    """The same groups, the first already parsed, so that a malformed file fails before the takeover.

    Not for stdin, which may be silent for hours.
    """
    return chain(list(islice(groups, 1)), groups)


def _append_all(
    groups: Iterable[Group], submit_many: Callable[..., Pending], acknowledged: Acknowledged
) -> None:
    """Append everything and print what was appended, also if it ends early."""
    from dlog.config import LogConfig

    try:
        for run in _runs(groups, LogConfig().batching.entry_bytes_max):
            keys = [key for key, _ in run]
            pending = submit_many([payload for _, payload in run], keys=keys)
            acknowledged.add(len(run), pending)
            acknowledged.collect(PENDING_MAX)
        acknowledged.collect(0)
    except (KeyboardInterrupt, LogStoreError, OSError):
        try:
            acknowledged.settle()
        finally:  # also when a second Ctrl-C ends that
            say("dlog", f"stopped early: {acknowledged.early_end()}")
        raise
    print(acknowledged.summary("appended"))


def _runs(groups: Iterable[Group], entry_bytes_max: int) -> Iterator[Group]:
    """Groups split into runs that fit into one entry.

    Raises:
        MessageTooLargeError: a message fits into no entry. It is raised before that message is submitted, since the
            messages after it must not be appended without it.
    """
    number = 0
    for group in groups:
        run: Group = []
        run_bytes = 0
        for message in group:
            number += 1
            size = len(message.payload) + len(message.key or b"")
            if run and (len(run) == RUN_MESSAGES or run_bytes + size > RUN_BYTES):
                yield run
                run, run_bytes = [], 0
            if size > RUN_BYTES:
                _check_size(number, message, entry_bytes_max)
            run.append(message)
            run_bytes += size
        if run:
            yield run


def _check_size(number: int, message: Keyed, entry_bytes_max: int) -> None:
    from dlog.format.entry import ENTRY_OVERHEAD_BYTES
    from dlog.format.message import message_bytes

    size = message_bytes(message.key, message.payload, []) + ENTRY_OVERHEAD_BYTES
    if size > entry_bytes_max:
        raise MessageTooLargeError(
            f"message {number} of the input needs an entry of {size} bytes, the limit is {entry_bytes_max}: split it",
            entry_bytes=size,
            entry_bytes_max=entry_bytes_max,
        )


@contextmanager
def _input(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The input, unbuffered so that a line is read as soon as it is written, and its size, None for stdin."""
    if file == "-":
        yield sys.stdin.buffer.raw if hasattr(sys.stdin.buffer, "raw") else sys.stdin.buffer, None
        return
    with _opened(file) as source:
        yield source, Path(file).stat().st_size


def _opened(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb", buffering=0)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file}: {error.strerror}; pass another file, or - for stdin"
        ) from error


def _chunks(source: BinaryIO, advance: Callable[[int], None], check: Callable[[], None]) -> Iterator[bytes]:
    """Chunks of the input. While it has none, `check` is called regularly: an append may have failed."""
    while True:
        while not select.select([source], [], [], CHECK_INTERVAL_S)[0]:
            check()
        chunk = source.read(CHUNK_BYTES)
        if not chunk:
            return
        advance(len(chunk))
        yield chunk


@contextmanager
def _progress(size: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar by bytes of input if stderr is a terminal."""
    if size is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("append", total=size)
        yield lambda amount: progress.advance(task, amount)
