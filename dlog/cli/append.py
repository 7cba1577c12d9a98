"""`dlog append`: input to durable messages, as fast as the input comes."""

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
"""Most that is appended as one entry: large enough for full speed, well below the limit of an entry."""
LOOK_S = 0.25
PENDING_MAX = 64
"""Runs on their way at once: some 16 MiB of large messages, less of small ones."""


TIMEOUT_S = 30.0
"""A bookie or store that is restarted is back well before. A library's user has two minutes (`hold_limit_s`): nobody
sits before it."""


class Pending(Protocol):
    """A run under way: what `Writer.submit_many` returns."""

    def done(self) -> bool: ...
    def result(self) -> Sequence[MessageId]: ...


class Acknowledged:
    """Counts messages as they become durable, in the order in which they were submitted."""

    def __init__(self) -> None:
        self.count = 0
        self.first: MessageId | None = None
        self.last: MessageId | None = None
        self._unknown = 0
        """Messages that may be there or not: they were on their way when the log was lost."""
        self._pending: deque[tuple[int, Pending]] = deque()

    def add(self, count: int, run: Pending) -> None:
        self._pending.append((count, run))

    def collect(self, leave: int) -> None:
        """Take what is acknowledged; wait until at most `leave` runs are on their way."""
        while self._pending and (len(self._pending) > leave or self._pending[0][1].done()):
            ids = self._pending[0][1].result()
            self._pending.popleft()
            self.first, self.last = self.first or ids[0], ids[-1]
            self.count += len(ids)

    def collect_done(self) -> None:
        """Take what is acknowledged without waiting; raise the error of what failed."""
        self.collect(len(self._pending))

    def settle(self) -> None:
        """Wait for all that is on its way, whatever becomes of it."""
        while self._pending:
            try:
                self.collect(0)
            except OutcomeUnknownError:
                self._unknown += self._pending.popleft()[0]
            except LogStoreError:
                self._pending.popleft()

    def summary(self, verb: str) -> str:
        if not self.count:
            return f"no message was {verb}"
        noun = "message" if self.count == 1 else "messages"
        return f"{self.count:,} {noun} {verb}, {self.first} to {self.last}"

    def early_end(self) -> str:
        """The summary where not everything was appended: what is there, and what may be."""
        unknown = self._unknown + sum(count for count, _ in self._pending)
        return self.summary("acknowledged") + (
            f"; {unknown:,} after them may be there or not" if unknown else ""
        )


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
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="Give up when an append is not durable after so long."
        ),
    ] = TIMEOUT_S,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Append messages from stdin or a file.

    One a line, or as --format says. Takes the log over from whoever writes it now. Prints the first and the
    last id when all is durable.
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
    """The same groups, the first already read: a file that does not fit its format takes no log over.

    Not for stdin, which may have nothing to say for hours.
    """
    return chain(list(islice(groups, 1)), groups)


def _append_all(
    groups: Iterable[Group], submit_many: Callable[..., Pending], acknowledged: Acknowledged
) -> None:
    """Append everything and say what became of it, also when it ends early."""
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
            say("dlog", f"ended early, {acknowledged.early_end()}")
        raise
    print(acknowledged.summary("appended"))


def _runs(groups: Iterable[Group], entry_bytes_max: int) -> Iterator[Group]:
    """Groups cut into what one entry takes.

    MessageTooLargeError before a message that no entry takes is handed over: what follows it must not be
    appended without it.
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
            f"message {number} of the input takes {size} bytes as an entry, the limit is {entry_bytes_max}: split it",
            entry_bytes=size,
            entry_bytes_max=entry_bytes_max,
        )


@contextmanager
def _input(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The input, unbuffered so that it arrives as it is written, and its size if it has one."""
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
            f"cannot read {file}: {error.strerror}; give another file, or - for stdin"
        ) from error


def _chunks(source: BinaryIO, advance: Callable[[int], None], look: Callable[[], None]) -> Iterator[bytes]:
    """What the input has. `look` is called now and then while it has nothing: an append may have failed meanwhile."""
    while True:
        while not select.select([source], [], [], LOOK_S)[0]:
            look()
        chunk = source.read(CHUNK_BYTES)
        if not chunk:
            return
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
