"""Runs work for many logs, ledgers or keys at the same time, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ledger.tasks import start_task

A = TypeVar("A")
T = TypeVar("T")

AT_ONCE = 32
"""Hides the round trips to bookies and the metadata store; more would only fill their queues."""


async def each(items: Iterable[A], work: Callable[[A], Awaitable[T]]) -> list[T]:
    """The results of `work`, in the order of the items. The first error, or a cancellation, ends what still runs."""
    waiting = list(items)
    results: dict[int, T] = {}
    numbered = iter(enumerate(waiting))

    async def work_on() -> None:
        for index, item in numbered:
            results[index] = await work(item)

    tasks = [start_task(work_on()) for _ in range(min(AT_ONCE, len(waiting)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [results[index] for index in range(len(waiting))]
