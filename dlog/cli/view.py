"""Where a command that goes on showing puts its lines: on the screen of a terminal, redrawn, or one after the other."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


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


@contextmanager
def view(*, redrawn: bool) -> Iterator[View]:
    """The screen of the terminal if there is one and it is to be redrawn."""
    if not (redrawn and sys.stdout.isatty()):
        yield Printed()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield Screen(console, live)


class Printed:
    """Views one after the other on stdout."""

    def show(self, lines_for: LinesFor) -> None:
        print("\n".join(lines_for(None)), end="\n\n", flush=True)

    def redraw(self) -> None:
        """What is printed stays."""


class Screen:
    """The screen of a terminal. Its size is read at each draw."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._lines_for: LinesFor = lambda size: ()

    def show(self, lines_for: LinesFor) -> None:
        self._lines_for = lines_for
        self.redraw()

    def redraw(self) -> None:
        from rich.text import Text

        width, height = self._console.size
        lines = [part for line in self._lines_for(Size(width, height)) for part in folded(line, width)]
        self._live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)


def folded(line: str, width: int) -> list[str]:
    """The line as lines of at most `width` characters, broken between words, so that an id stays whole if it fits."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""]
