"""Where `dlog append` reads: a file or stdin, in chunks, with a progress bar."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ledger.errors import ConfigurationError

CHUNK_BYTES = 1 << 20
CHECK_INTERVAL_S = 0.25
"""How often `check` is called while the input has nothing."""


@contextmanager
def opened_input(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The input, unbuffered so that a line is read as soon as it is written, and its size, None for stdin.

    Raises:
        ConfigurationError: the file cannot be read, or stdin is closed.
    """
    if file == "-":
        from ledger.environment import is_closed

        if is_closed("stdin"):
            raise ConfigurationError(
                "stdin is closed: pass the name of a file, or start the command with an input"
            )
        yield sys.stdin.buffer.raw if hasattr(sys.stdin.buffer, "raw") else sys.stdin.buffer, None
        return
    with _opened(file) as source:
        yield source, Path(file).stat().st_size


def _opened(file: str) -> BinaryIO:
    if not file:
        raise ConfigurationError("FILE is empty: pass the name of a file, or - for stdin")
    try:
        return Path(file).open("rb", buffering=0)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file}: {error.strerror}; pass another file, or - for stdin"
        ) from error


def chunks_of(source: BinaryIO, advance: Callable[[int], None], check: Callable[[], None]) -> Iterator[bytes]:
    """Chunks of the input.

    While it has none, `check` is called regularly: an append may have failed, or the log may be lost.
    """
    poll = select.poll()  # select.select takes no descriptor above 1023
    poll.register(source, select.POLLIN)
    while True:
        while not poll.poll(CHECK_INTERVAL_S * 1000):
            check()
        chunk = source.read(CHUNK_BYTES)
        if not chunk:
            return
        advance(len(chunk))
        yield chunk


@contextmanager
def progress(size: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar by bytes of input if stderr is a terminal."""
    if size is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("append", total=size)
        yield lambda amount: bar.advance(task, amount)
