"""The screen of commands that go on showing, drawn into memory."""

from __future__ import annotations

from typing import cast

import pytest
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


LINES = [
    "log    default/z",
    "",
    "owner  process 9719 on vm since 2026-11-27T20:35:04.784+00:00, instance d26a1c67-5759-49e8-8b8e-0eb937cd6e7c",
    "uuid   249ee190-dfd7-4c1e-8130-dd2d739c920a",
]


@pytest.mark.parametrize("width", [44, 60, 80, 110, 120])
def test_ids_are_whole_on_a_narrow_screen(width: int) -> None:
    terminal = Terminal(width, 24)
    on(terminal).show(lambda size: LINES)
    assert max(map(len, terminal.drawn)) <= width
    assert " ".join(terminal.drawn).split() == " ".join(LINES).split()
    assert terminal.drawn[:2] == LINES[:2]


def test_a_word_that_is_longer_than_the_screen_is_continued_below() -> None:
    terminal = Terminal(10, 24)
    on(terminal).show(lambda size: LINES[-1:])
    assert max(map(len, terminal.drawn)) <= 10
    assert "".join("".join(terminal.drawn).split()) == "".join(LINES[-1].split())
