"""Backpressure by bytes: who may append now, and in which order the others follow."""

from __future__ import annotations

import asyncio
from collections import deque

from ledger.errors import LogStoreError


class Room:
    """A first-come, first-served byte budget. One entry always fits into an empty one.

    Order is kept even between those woken and newcomers: whoever comes while somebody waits, or has been woken
    and has not run yet, queues behind.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._woken = 0

    @property
    def used(self) -> int:
        return self._used

    @property
    def crowded(self) -> bool:
        """Whether somebody waits, or was woken and has not gone on yet."""
        return bool(self._waiting) or self._woken > 0

    def fits(self, size: int) -> bool:
        return not self.crowded and (self._used + size <= self._bytes_max or not self._used)

    def take(self, size: int) -> None:
        self._used += size

    async def wait(self, size: int) -> None:
        """Return when it is the caller's turn and `size` bytes are free, which it then takes without waiting.

        Cancelling gives up the place in the queue.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._woken -= 1
                self.give_back(size)
            raise
        self._woken -= 1
        self._used -= size

    def give_back(self, size: int) -> None:
        """Free bytes and wake, in order, all that fit now."""
        self._used -= size
        waiting = self._waiting
        while waiting:
            wanted, future = waiting[0]
            if future.done():
                waiting.popleft()
                continue
            if self._used + wanted > self._bytes_max and self._used:
                return
            waiting.popleft()
            self._used += wanted
            self._woken += 1
            future.set_result(None)

    def refuse_all(self, error: LogStoreError) -> None:
        """Nobody gets in any more."""
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(type(error)(str(error), **error.facts))
