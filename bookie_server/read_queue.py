"""Reads of one connection that must wait for the disk, or for the peer to take earlier answers.

Each running read may bring an answer of a frame's size, so only a few run together, of one connection and
of all, and none starts while the answers already made have not left. What waits is a small callable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

Work = Callable[[], Coroutine[None, None, None]]


class ReadSlots:
    """How many reads of all connections may run together; who found none free is served in turn."""

    def __init__(self, slot_count: int) -> None:
        self._free = slot_count
        self._waiting: dict[ReadQueue, None] = {}

    def take(self, queue: ReadQueue) -> bool:
        """Take a slot, or be called back (`start_more`) when one is free."""
        if self._free == 0:
            self._waiting[queue] = None
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        if self._waiting:
            queue = next(iter(self._waiting))
            del self._waiting[queue]
            queue.start_more()

    def forget(self, queue: ReadQueue) -> None:
        self._waiting.pop(queue, None)


class ReadQueue:
    """First come, first started; answers may overtake each other, as the protocol allows."""

    def __init__(
        self,
        slots: ReadSlots,
        running_max: int,
        may_start: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._running_max = running_max
        self._may_start = may_start
        self._on_change = on_change
        self._waiting: deque[Work] = deque()
        self._running: dict[asyncio.Task[None], None] = {}
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def submit(self, work: Work) -> None:
        self._waiting.append(work)
        self.start_more()

    def start_more(self) -> None:
        """Start what may start; to be called again whenever `may_start` may have turned true."""
        while self._waiting and len(self._running) < self._running_max and self._may_start():
            if not self._slots.take(self):
                return
            task = asyncio.get_running_loop().create_task(self._waiting.popleft()())
            self._running[task] = None
            task.add_done_callback(self._finished)

    def close(self) -> None:
        """The peer is gone: nobody waits for these answers."""
        self._closed = True
        self._waiting.clear()
        self._slots.forget(self)
        for task in self._running:
            task.cancel()

    def _finished(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not self._closed:
            self.start_more()
        self._slots.give_back()
        if not self._closed:
            self._on_change()
        if not task.cancelled():
            task.result()  # a bug in a read belongs to the loop's exception handler
