"""How fast the bookie's own work on its files goes on: at the rate of the settings, and slower while appends wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_BUSY_FACTOR = 4
"""By which it is slower then."""


class Pace:
    def __init__(self, bytes_per_s: float, appends_wait: Callable[[], bool]) -> None:
        self._bytes_per_s = bytes_per_s
        self._appends_wait = appends_wait

    async def after(self, done_bytes: int, took_s: float = 0.0) -> None:
        """Wait as long as this number of bytes takes at that rate, and at least as long as they took."""
        time_s = done_bytes / self._bytes_per_s * (_BUSY_FACTOR if self._appends_wait() else 1)
        await asyncio.sleep(max(time_s, took_s))
