"""Runs work for many logs or ledgers at the same time, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")

AT_ONCE = 32
"""Hides the round trips to bookies and the metadata store; more would only fill their queues."""


async def each(items: Iterable[A], work: Callable[[A], Awaitable[T]]) -> list[T]:
    """The results of `work`, in the order of the items. The first error ends what still runs."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(item: A) -> T:
        async with limit:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
