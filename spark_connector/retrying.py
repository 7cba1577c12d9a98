"""Repeats a read while bookies or the metadata store are unavailable, up to `readTimeoutMs`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from ledger.errors import RequestTimeoutError, UnavailableError

T = TypeVar("T")

_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 2.0
"""A restarted bookie is back within seconds. Pauses are random, since all tasks lose it at the same time."""


async def retrying(read: Callable[[], Awaitable[T]], timeout_ms: int, what: str) -> T:
    """The result of `read`, which is repeated after an UnavailableError.

    Raises:
        RequestTimeoutError: `what` could not be read in time.
        UnavailableError: of the last attempt that ended in time.
    """
    limit_s = timeout_ms / 1000
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(UnavailableError),
        wait=wait_random_exponential(multiplier=_PAUSE_FIRST_S, max=_PAUSE_MAX_S),
        stop=stop_before_delay(limit_s),
        reraise=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            async for attempt in attempts:
                with attempt:
                    return await read()
            raise AssertionError("the policy ends with a result or an error")
    except TimeoutError as error:
        raise RequestTimeoutError(
            f"{what} could not be read within readTimeoutMs={timeout_ms}: check the bookies and the metadata store, or "
            "raise readTimeoutMs"
        ) from error
