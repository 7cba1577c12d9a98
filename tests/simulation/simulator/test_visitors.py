"""Readers that come and leave within one client do not end each other, and the checks see if one did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.read.fetcher import Fetcher
from dlog.read.reader import Reader
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import Report, run_plan

ONE: dict[str, Any] = {"visitors": 1, "chaos_s": 6.0, "readers": 0, "witnesses": 0, "other_log": False}


def played(seed: int, profile: str) -> Report:
    return run_plan(make_plan(seed, profile, ONE))


@pytest.mark.parametrize(("profile", "seed"), [("calm", 1), ("chaos", 2)])
def test_readers_leave_while_they_open_and_while_they_wait(
    profile: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, left = Reader.close, {"opens": 0, "reads": 0}

    async def close(self: Reader) -> None:
        left["opens" if self._fetcher is None else "reads"] += not self.ended
        await honest(self)

    monkeypatch.setattr(Reader, "close", close)
    report = played(seed, profile)
    assert report.findings == []
    assert min(left.values()) > 2


def test_a_tail_that_ends_by_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, asked = Fetcher.take, []

    async def take(self: Fetcher, give_up_at: float | None = None) -> Any:
        asked.append(self)
        return None if len(asked) % 100 == 0 else await honest(self, give_up_at)

    monkeypatch.setattr(Fetcher, "take", take)
    assert any("has no end, but ended" in found for found in played(1, "calm").findings)


def test_a_reader_that_is_cancelled_by_another_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Reader.__aenter__

    async def enter(self: Reader) -> Any:
        task = asyncio.current_task()
        if task is not None and task.get_name() == "visitors-0.0.5 reads":
            raise asyncio.CancelledError
        return await honest(self)

    monkeypatch.setattr(Reader, "__aenter__", enter)
    assert any("was cancelled from elsewhere" in found for found in played(1, "calm").findings)
