"""Repeats work while bookies or the metadata store are unavailable, up to the time that an option gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dlog.backoff import Backoff
from ledger.environment import SystemEnvironment
from ledger.errors import RequestTimeoutError, UnavailableError

T = TypeVar("T")

_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 2.0
"""A restarted bookie is back within seconds. Pauses are random, since all tasks lose it at the same time."""


async def retrying(
    work: Callable[[], Awaitable[T]],
    timeout_ms: int,
    what: str,
    *,
    option: str = "readTimeoutMs",
    done: str = "read",
    after: type[UnavailableError] = UnavailableError,
) -> T:
    """The result of `work`, which is repeated after errors of the kind `after`.

    Raises:
        RequestTimeoutError: `what` could not be `done` in time, which `option` gives.
        UnavailableError: of the kind `after`, of the last attempt that ended in time. Other errors immediately.
    """
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + timeout_ms / 1000
    pauses: Backoff | None = None  # an idle stream of many logs reads often, and almost always once
    try:
        async with asyncio.timeout_at(until_s):
            while True:
                try:
                    return await work()
                except after:
                    pauses = pauses or Backoff(
                        SystemEnvironment(), first_s=_PAUSE_FIRST_S, max_s=_PAUSE_MAX_S
                    )
                    pause_s = pauses.next_s()
                    if now_s() + pause_s >= until_s:
                        raise
                await asyncio.sleep(pause_s)
    except TimeoutError as error:
        raise RequestTimeoutError(
            f"{what} could not be {done} within {option}={timeout_ms}: check the bookies and the metadata store, or "
            f"raise {option}"
        ) from error
