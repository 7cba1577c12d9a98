"""The screen of commands that go on showing, drawn into memory."""

from __future__ import annotations

from typing import cast

from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from dlog.cli.view import Screen, Size


class Terminal:
    """Console and what is drawn there."""

    def __init__(self, width: int, height: int) -> None:
        self.size = ConsoleDimensions(width, height)
        self.drawn: list[str] = []

    def update(self, text: Text, *, refresh: bool) -> None:
        assert refresh
        self.drawn = text.plain.split("\n")


def on(terminal: Terminal) -> Screen:
    return Screen(cast(Console, terminal), cast(Live, terminal))


def test_each_draw_fits_into_the_terminal_as_it_is_then() -> None:
    terminal = Terminal(80, 24)
    screen = on(terminal)
    screen.show(lambda size: [f"{size}"])
    assert terminal.drawn == [f"{Size(80, 24)}"]
    terminal.size = ConsoleDimensions(70, 30)
    screen.redraw()
    assert terminal.drawn == [f"{Size(70, 30)}"]
