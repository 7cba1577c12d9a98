"""Callers that wait for an entry, released by the run."""

from __future__ import annotations

import asyncio
import heapq

from ledger.errors import LogStoreError


class Waiters:
    """Futures by the entry that they wait for. Those that were cancelled are skipped."""

    __slots__ = (
        "_count",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap, by entry; to be read only."""
        self._count = 0

    def add(self, entry_id: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self.waiting, (entry_id, self._count, future))
        return future

    def release(self, entry_id: int) -> None:
        """Complete the futures of entries up to this one."""
        while self.waiting and self.waiting[0][0] <= entry_id:
            future = heapq.heappop(self.waiting)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: LogStoreError) -> None:
        """Raise a copy of this error in every caller that still waits."""
        waiting, self.waiting = self.waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error.copy())
