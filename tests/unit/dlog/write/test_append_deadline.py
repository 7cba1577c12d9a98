"""When a waiting append is reported, and when it is given up."""

from __future__ import annotations

import asyncio
import time

import pytest

from dlog.write import append_deadline
from dlog.write.append_deadline import AppendDeadline
from tests.helpers.ledger.scripted_bookies import until


class Watched:
    """A writer with at most one append pending."""

    def __init__(self, limit_s: float) -> None:
        self.accepted_at: float | None = None
        self.slow: list[float] = []
        self.overdue_at: float | None = None
        self.deadline = AppendDeadline(
            limit_s, oldest=lambda: self.accepted_at, on_slow=self.slow.append, on_overdue=self._overdue
        )

    def _overdue(self) -> None:
        self.overdue_at = asyncio.get_running_loop().time()

    def accept(self) -> float:
        self.accepted_at = asyncio.get_running_loop().time()
        if not self.deadline.running:
            self.deadline.start()
        return self.accepted_at


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_deadline, "LOOK_S", 0.02)
    monkeypatch.setattr(append_deadline, "FIRST_WARNING_S", 0.05)


async def test_an_append_is_reported_now_and_then_and_given_up_once() -> None:
    watched = Watched(limit_s=0.5)
    accepted_at = watched.accept()
    await until(lambda: watched.overdue_at is not None)
    assert watched.overdue_at is not None
    assert watched.overdue_at - accepted_at >= 0.5
    assert [round(waited / 0.05) >= least for waited, least in zip(watched.slow, (1, 2, 4), strict=False)]
    assert 1 <= len(watched.slow) <= 4
    assert not watched.deadline.running


async def test_an_append_that_succeeds_stops_the_clock() -> None:
    """The next one has all of the time again, and no timer runs in between."""
    watched = Watched(limit_s=0.4)
    watched.accept()
    watched.accepted_at = None
    await until(lambda: not watched.deadline.running)
    again = watched.accept()
    await until(lambda: watched.overdue_at is not None)
    assert watched.overdue_at is not None
    assert watched.overdue_at - again >= 0.4


async def test_a_limit_below_the_pause_between_looks_is_kept() -> None:
    watched = Watched(limit_s=0.005)
    watched.accept()
    await until(lambda: watched.overdue_at is not None, timeout_s=2)


async def test_time_in_which_this_process_was_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_deadline, "_PAUSE_S", 0.1)
    watched = Watched(limit_s=0.3)
    watched.accept()
    time.sleep(0.5)  # noqa: ASYNC251 - as SIGSTOP does to the loop
    resumed = asyncio.get_running_loop().time()
    await until(lambda: watched.overdue_at is not None)
    assert watched.overdue_at is not None
    assert watched.overdue_at - resumed >= 0.25
