"""Where a command that goes on showing puts its lines: on the screen of a terminal, redrawn, or one after the other."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ledger.command_line import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_WARNINGS_HELD = 100


@dataclass(frozen=True, slots=True)
class Size:
    """Of a screen, in characters."""

    width: int
    height: int


LinesFor = Callable[[Size | None], Iterable[str]]
"""Lines that fit on a screen of this size; all of them if there is none."""


class View(Protocol):
    def show(self, lines_for: LinesFor) -> None:
        """Show these lines instead of those before."""

    def redraw(self) -> None:
        """Show the same lines again: the size of the terminal may have changed."""

    def notice(self, line: str | None) -> None:
        """Show a line about what is shown, why it may be old, until another call; None removes it."""


@contextmanager
def view(*, redrawn: bool) -> Iterator[View]:
    """The screen of the terminal if there is one that can be redrawn, and it is to be."""
    if not (redrawn and sys.stdout.isatty()):
        yield Printed()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal or console.is_dumb_terminal:  # TERM=dumb: rich would show nothing at all
        yield Printed()
        return
    with _warnings_held(), Live(console=console, screen=True, auto_refresh=False) as live:
        yield Screen(console, live)


class Printed:
    """Views one after the other on stdout; a notice is a sentence on stderr, once until it is removed."""

    def __init__(self) -> None:
        self._noticed = False

    def show(self, lines_for: LinesFor) -> None:
        print("\n".join(lines_for(None)), end="\n\n", flush=True)

    def redraw(self) -> None:
        """What is printed stays."""

    def notice(self, line: str | None) -> None:
        if line is not None and not self._noticed:
            say("dlog", line)
        self._noticed = line is not None


class Screen:
    """The screen of a terminal. Its size is read at each draw."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._lines_for: LinesFor = lambda size: ()
        self._notice: str | None = None

    def show(self, lines_for: LinesFor) -> None:
        self._lines_for = lines_for
        self.redraw()

    def redraw(self) -> None:
        from rich.text import Text

        width, height = self._console.size
        above = [] if self._notice is None else folded(self._notice, width)
        below = self._lines_for(Size(width, max(1, height - len(above))))
        lines = [*above, *(part for line in below for part in folded(line, width))]
        self._live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)

    def notice(self, line: str | None) -> None:
        self._notice = line
        self.redraw()


def folded(line: str, width: int) -> list[str]:
    """The line as lines of at most `width` characters, broken between words, so that an id stays whole if it fits."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""]


class _HeldWarnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_WARNINGS_HELD)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def _warnings_held() -> Iterator[None]:
    """What is logged for the terminal is written afterwards, the newest of it: it would scroll the screen."""
    if not sys.stderr.isatty():
        yield
        return
    root, held = logging.getLogger(), _HeldWarnings()
    handlers = root.handlers[:]
    root.handlers[:] = [held]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for record in held.records:
            root.handle(record)
