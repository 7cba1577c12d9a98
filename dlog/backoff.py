"""Waiting times that grow and differ between processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger.environment import Environment
from ledger.errors import UnavailableError

T = TypeVar("T")


class Backoff:
    """Full jitter: each wait is drawn from zero to a bound that doubles up to `max_s`."""

    def __init__(self, environment: Environment, *, first_s: float = 0.02, max_s: float = 2.0) -> None:
        self._rng = environment.rng
        self._first_s = first_s
        self._max_s = max_s
        self._bound_s = first_s

    def next_s(self) -> float:
        bound = self._bound_s
        self._bound_s = min(bound * 2, self._max_s)
        return self._rng.uniform(bound / 4, bound)

    def reset(self) -> None:
        self._bound_s = self._first_s


async def until_available(
    call: Callable[[], Awaitable[T]],
    environment: Environment,
    timeout_s: float,
    on_outage: Callable[[UnavailableError], None],
) -> T:
    """Call it again while bookies or the metadata store do not respond; `on_outage` gets the error each time.

    Raises:
        UnavailableError: of the first call that ended after `timeout_s`.
    """
    now = asyncio.get_running_loop().time
    raise_at = now() + timeout_s
    backoff = Backoff(environment)
    while True:
        try:
            return await call()
        except UnavailableError as error:
            if now() >= raise_at:
                raise
            on_outage(error)
        await asyncio.sleep(backoff.next_s())
