"""The screen of commands that go on showing, drawn into memory."""

from __future__ import annotations

import io
import logging
import sys
from typing import cast

import pytest
from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from dlog.cli.live.view import Printed, Screen, Size, folded, view


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


def test_a_notice_is_above_the_lines_until_it_is_removed() -> None:
    terminal = Terminal(30, 24)
    screen = on(terminal)
    screen.notice("the store is away since 22:13:20Z")
    screen.show(lambda size: [f"{size}"])
    assert terminal.drawn == ["the store is away since", "  22:13:20Z", *folded(f"{Size(30, 22)}", 30)]
    screen.notice(None)
    assert terminal.drawn == folded(f"{Size(30, 24)}", 30)


def test_without_a_terminal_a_notice_is_written_once_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed()
    for line in ("away", "still away", None, "away again"):
        printed.notice(line)
    assert capsys.readouterr() == ("", "dlog: away\ndlog: away again\n")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_warnings_are_written_after_the_screen_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [logging.StreamHandler(terminal)])
    with view(redrawn=True):
        logging.getLogger("ledger").warning("the connection is lost")
        logging.getLogger("ledger").info("that nothing was wrong")
    left, written = terminal.getvalue().rsplit("\x1b[?1049l", 1)
    assert "connection" not in left
    assert written == "the connection is lost\n"


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_that_cannot_be_redrawn_gets_all_views(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", name)
    with view(redrawn=True) as shown:
        shown.show(lambda size: ["one", f"{size}"])
        shown.show(lambda size: ["two"])
    assert terminal.getvalue() == "one\nNone\n\ntwo\n\n"
