"""What `bookie recover` shows of its progress: the line, the rate, and what a terminal gets."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from contextlib import ExitStack

import pytest

from bookie_server.tools.repair import display
from bookie_server.tools.repair.display import Display, Rate, check_line_of, line_of
from ledger.model import LedgerId
from ledger.repair.progress import CheckProgress, DrainProgress


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def test_before_the_ledgers_are_known_it_says_so() -> None:
    assert line_of(DrainProgress(), 0.0) == "reading the metadata of all ledgers"


def test_the_line_has_ledgers_and_the_entries_of_those_that_are_copied() -> None:
    progress = DrainProgress(ledgers=40, ledgers_done=3)
    with progress.copies.of(LedgerId(5), 0) as ended:
        ended.add(1, 1_000_000_000)
    with progress.copies.of(LedgerId(17), 0) as first, progress.copies.of(LedgerId(18), 0):
        first.entries_total = 1_000_000
        first.add(40_210, 120_000_000)
        assert line_of(progress, 35_000_000.0) == (
            "3 of 40 ledgers done, 1,120.0 MB copied, 35.0 MB/s; "
            "ledger 17: copied 40,210 of 1,000,000 entries, 120.0 MB; ledger 18: reading copies"
        )


def test_the_line_of_a_check_has_the_copies_of_the_ledger_that_is_read() -> None:
    progress = CheckProgress()
    assert check_line_of(progress) == "0 ledgers checked"
    progress.ledgers = 1
    with progress.copies.of(LedgerId(17), 0) as current:
        current.copies_total = 3_000_000
        current.copies_read = 40_000
        assert check_line_of(progress) == "1 ledger checked; ledger 17: read 40,000 of 3,000,000 copies"


def test_of_many_ledgers_the_first_are_named() -> None:
    progress = DrainProgress(ledgers=5)
    with ExitStack() as stack:
        for number in range(5):
            stack.enter_context(progress.copies.of(LedgerId(number), 0))
        assert line_of(progress, 0.0).endswith("ledger 2: reading copies; and 2 more")


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.after(0.0, 0) == 0.0
    assert rate.after(5.0, 500) == 100.0
    assert rate.after(10.0, 500) == 50.0
    assert rate.after(15.0, 500) == 0.0, "what came in the first five seconds is over"
    assert rate.after(20.0, 400) == 0.0, "a copy was taken back"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_DRAWN_S", 0.001)
    monkeypatch.setattr(display, "_PRINTED_S", 0.001)


def written(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "30")

    async def main() -> None:
        shown = Display()
        async with shown.following(DrainProgress(ledgers=2)):
            while "2 ledgers" not in stream.getvalue():  # noqa: ASYNC110 -- the display has no event
                await asyncio.sleep(0.001)
            shown.say("1 of 2: ledger 7")
            if is_terminal:
                logging.getLogger("ledger").warning("waiting for %s", "others")

    asyncio.run(main())
    return stream.getvalue()


@pytest.mark.usefixtures("quick")
def test_a_terminal_gets_one_line_that_is_redrawn_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = written(monkeypatch, is_terminal=True)
    line = "0 of 2 ledgers done, 0.0 MB c"
    assert f"\r\x1b[K{line}" in shown and "copied" not in shown, "never wider than the terminal"
    assert f"\r\x1b[K1 of 2: ledger 7\n{line}\r\x1b[Kwaiting for others\n{line}" in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.usefixtures("quick")
def test_without_a_terminal_it_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = written(monkeypatch, is_terminal=False)
    assert "\x1b" not in shown and "\r" not in shown
    assert shown.splitlines()[0] == "0 of 2 ledgers done, 0.0 MB copied, 0.0 MB/s"
    assert "1 of 2: ledger 7\n" in shown
