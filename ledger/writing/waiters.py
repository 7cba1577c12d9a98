"""Callers that wait for an entry, released by the run."""

from __future__ import annotations

import asyncio
import heapq

from ledger.errors import LogStoreError


class Waiters:
    """Futures by the entry that they wait for. Those that were cancelled are skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def add(self, entry_id: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._heap, (entry_id, self._count, future))
        return future

    def release(self, entry_id: int) -> None:
        """Complete the futures of entries up to this one."""
        while self._heap and self._heap[0][0] <= entry_id:
            future = heapq.heappop(self._heap)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: LogStoreError) -> None:
        """Raise a copy of this error in every caller that still waits."""
        waiting, self._heap = self._heap, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error.copy())
