"""The progress bar of `dlog export`, by messages, if stderr is a terminal that does not get the messages, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dlog.errors import DataLossError, HistoryPageError

if TYPE_CHECKING:
    from dlog.blocking.client import Client
    from dlog.blocking.reader import Reader
    from dlog.cli.positions import Position


@contextmanager
def progress(
    client: Client, log: str, reader: Reader, until: Position, *, to_stdout: bool
) -> Iterator[Callable[[int], None]]:
    """A function that takes how many messages were written since its last call."""
    if not sys.stderr.isatty() or (to_stdout and sys.stdout.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("messages"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("export", total=_message_count(client, log, reader, until))
        yield lambda count: bar.advance(task, count)


def _message_count(client: Client, log: str, reader: Reader, until: Position) -> int | None:
    """Messages from the reader's position to `until`, as of now; None if older entries do not say it, or are lost."""
    try:
        count = reader.measure_lag().messages
        if count is None or isinstance(until, str):
            return count
        with client.reader(log, start=until) as behind:
            after = behind.measure_lag().messages
    except (DataLossError, HistoryPageError):
        return None  # the export raises it, or passes it
    return None if after is None else max(0, count - after)
