"""Waiters wake once, for the right reason, and leave nothing behind."""

from __future__ import annotations

import asyncio

from bookie_server.protocol.long_poll import LacWatchers, Wake

SOON_S = 0.001
NEVER_S = 3600.0


def test_an_advance_wakes_those_it_passes_and_no_others() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(10, NEVER_S)
        woken: list[tuple[int, Wake]] = []
        watchers.wait(1, 3, NEVER_S, lambda why: woken.append((3, why)))
        watchers.wait(1, 5, NEVER_S, lambda why: woken.append((5, why)))
        watchers.wait(2, 0, NEVER_S, lambda why: woken.append((0, why)))
        watchers.advanced(1, 4)
        await asyncio.sleep(0)
        assert woken == [(3, Wake.ADVANCED)]
        assert len(watchers) == 2

    asyncio.run(scenario())


def test_an_equal_lac_is_no_news() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(10, NEVER_S)
        woken: list[Wake] = []
        watchers.wait(1, 3, NEVER_S, woken.append)
        watchers.advanced(1, 3)
        await asyncio.sleep(0)
        assert woken == []

    asyncio.run(scenario())


def test_a_fence_wakes_everybody_of_the_ledger() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(10, NEVER_S)
        woken: list[Wake] = []
        watchers.wait(1, 3, NEVER_S, woken.append)
        watchers.wait(1, 9, NEVER_S, woken.append)
        watchers.fenced(1)
        watchers.advanced(1, 100)
        await asyncio.sleep(0)
        assert woken == [Wake.FENCED, Wake.FENCED]

    asyncio.run(scenario())


def test_time_runs_out() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(10, NEVER_S)
        woken: asyncio.Future[Wake] = asyncio.get_running_loop().create_future()
        watchers.wait(1, 3, SOON_S, woken.set_result)
        assert await woken is Wake.TIMED_OUT
        assert len(watchers) == 0

    asyncio.run(scenario())


def test_a_wait_longer_than_allowed_ends_early() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(10, SOON_S)
        woken: asyncio.Future[Wake] = asyncio.get_running_loop().create_future()
        watchers.wait(1, 3, NEVER_S, woken.set_result)
        assert await woken is Wake.TIMED_OUT

    asyncio.run(scenario())


def test_a_cancelled_waiter_never_wakes_and_frees_its_place() -> None:
    async def scenario() -> None:
        watchers = LacWatchers(1, NEVER_S)
        woken: list[Wake] = []
        waiter = watchers.wait(1, 3, SOON_S, woken.append)
        assert watchers.full
        watchers.cancel(waiter)
        watchers.cancel(waiter)
        assert len(watchers) == 0
        watchers.advanced(1, 10)
        await asyncio.sleep(2 * SOON_S)
        assert woken == []

    asyncio.run(scenario())
