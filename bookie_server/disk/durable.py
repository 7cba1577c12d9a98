"""Waits in a coroutine for what the journal reports by a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

OnDurable = Callable[[Exception | None], None]


async def until_durable(begin: Callable[[OnDurable], None]) -> Exception | None:
    """Begin, and return what the callback is told: None once it is durable.

    A waiter may be cancelled meanwhile. Its callback is called all the same, among those of the whole group, and
    must not raise: the others behind it would never be answered.
    """
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def settle(error: Exception | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    begin(settle)
    return await outcome
