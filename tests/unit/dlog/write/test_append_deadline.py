"""When a waiting append is reported, and when it is given up."""

from __future__ import annotations

import asyncio
import time
from unittest import mock

import pytest

from dlog.core.rotation import Phase
from dlog.write import append_deadline
from dlog.write.append_deadline import AppendDeadline, DeadlineClock
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.scripted_log import scripted_log, store_of
from tests.helpers.log.scripted_writer import settled_writer


class Watched:
    """A writer with at most one append pending."""

    def __init__(self, limit_s: float, clock: DeadlineClock | None = None) -> None:
        self.accepted_at: float | None = None
        self.slow: list[float] = []
        self.overdue_at: float | None = None
        self.deadline = AppendDeadline(
            limit_s,
            clock or DeadlineClock(),
            oldest=lambda: self.accepted_at,
            on_slow=self.slow.append,
            on_overdue=self._overdue,
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


async def test_a_stop_of_this_process_while_a_ledger_is_replaced_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(append_deadline, "_PAUSE_S", 0.1)
    async with scripted_log() as log, log.client(hold_limit_s=0.5) as client:
        writer = await settled_writer(client, "orders")
        await writer.append(b"one")
        closing = store_of(client).held["write_ledger"] = asyncio.Event()
        rotating = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer._rotation.phase is Phase.CLOSING)
        pending = await writer.submit(b"two")
        time.sleep(1.0)  # noqa: ASYNC251 - as SIGSTOP does to the loop
        closing.set()
        await asyncio.gather(rotating, pending)
        assert writer.active


async def test_a_ledger_that_cannot_be_replaced_in_time_ends_the_writer() -> None:
    async with scripted_log() as log, log.client(hold_limit_s=0.3) as client:
        writer = await settled_writer(client, "orders")
        await writer.append(b"one")
        store_of(client).held["write_ledger"] = asyncio.Event()
        rotating = asyncio.ensure_future(writer.rotate())
        await until(lambda: not writer.active)
        assert "could not be written for 0.3 s" in str(writer.refusal)
        await asyncio.gather(rotating, return_exceptions=True)


async def test_deadlines_share_one_timer() -> None:
    """However many writers wait: a timer for each of thousands of logs costs more than their appends."""
    clock = DeadlineClock()
    loop = asyncio.get_running_loop()
    with mock.patch.object(loop, "call_at", wraps=loop.call_at) as call_at:
        waiting = [Watched(limit_s=60.0, clock=clock) for _ in range(20)]
        for watched in waiting:
            watched.accept()
        assert call_at.call_count == 1
        for watched in waiting:
            watched.accepted_at = None
        await until(lambda: not any(watched.deadline.running for watched in waiting))


async def test_a_deadline_that_raises_keeps_none_of_the_others_from_being_checked() -> None:
    loop, clock, raised = asyncio.get_running_loop(), DeadlineClock(), list[object]()
    loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))

    def fail() -> None:
        raise ValueError("a bug")

    bad, good = Watched(limit_s=60.0, clock=clock), Watched(limit_s=60.0, clock=clock)
    bad.deadline = AppendDeadline(60.0, clock, oldest=fail, on_slow=print, on_overdue=fail)
    bad.accept()
    good.accept()
    await until(lambda: bool(good.slow))
    assert [str(error) for error in raised] == ["a bug"]


async def test_a_stopped_deadline_is_not_checked_again() -> None:
    clock = DeadlineClock()
    stopped, other = Watched(limit_s=60.0, clock=clock), Watched(limit_s=60.0, clock=clock)
    stopped.accept()
    other.accept()
    stopped.deadline.stop()
    await until(lambda: bool(other.slow))
    assert not stopped.slow
