"""Work for many items: in their order, within a limit, and ended by the first error."""

from __future__ import annotations

import asyncio

import pytest

from dlog.together import AT_ONCE, each


def test_results_are_in_the_order_of_the_items() -> None:
    async def work(item: int) -> int:
        for _ in range(100 - item):
            await asyncio.sleep(0)
        return item

    assert asyncio.run(each(range(100), work)) == list(range(100))
    assert asyncio.run(each([], work)) == []


def test_no_more_run_at_a_time_than_the_limit() -> None:
    running = most = 0

    async def work(_: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    asyncio.run(each(range(3 * AT_ONCE), work))
    assert most == AT_ONCE


def test_the_first_error_ends_what_still_runs() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        if item == 3:
            raise ValueError(item)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    async def main() -> None:
        with pytest.raises(ValueError, match="3"):
            await each(range(6), work)
        assert sorted(ended) == [0, 1, 2, 4, 5]

    asyncio.run(main())
