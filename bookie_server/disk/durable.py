"""Waits in a coroutine for what the journal reports by a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

OnDurable = Callable[[Exception | None], None]


async def until_durable(begin: Callable[[OnDurable], None]) -> Exception | None:
    """Begin, and return the outcome that the callback gets: None if it is durable.

    The waiter may be cancelled. Its callback is then called all the same, among those of the whole group, and must not
    raise: those after it would never be called.
    """
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def settle(error: Exception | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    begin(settle)
    return await outcome
