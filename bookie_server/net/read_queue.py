"""Reads of one connection that must wait for the disk, or for the peer to take earlier answers.

Each running read may bring an answer of a frame's size, so only a few run together, of one connection and
of all, and none starts without a place for its answer. What waits is a small callable. Urgent reads, those of a
takeover, come before the others and have slots of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

Work = Callable[[], Coroutine[None, None, None]]


URGENT_SLOTS = 4
"""Slots for urgent reads alone, in addition to all others; and one more for each connection."""


class ReadSlots:
    """How many reads of all connections may run together; who found none free is served in turn."""

    def __init__(self, slot_count: int) -> None:
        self._slot_count = slot_count
        self._running = 0
        self._waiting: dict[ReadQueue, None] = {}
        self._waiting_urgently: dict[ReadQueue, None] = {}

    def take(self, queue: ReadQueue, *, urgent: bool) -> bool:
        """Take a slot, or be called back (`start_more`) when one is free."""
        if self._running >= self._slot_count + (URGENT_SLOTS if urgent else 0):
            (self._waiting_urgently if urgent else self._waiting)[queue] = None
            return False
        self._running += 1
        return True

    def give_back(self) -> None:
        self._running -= 1
        # A queue that is called may not need a slot any more: then the next one gets it.
        while self._waiting_urgently and self._running < self._slot_count + URGENT_SLOTS:
            self._wake_first(self._waiting_urgently)
        while self._waiting and self._running < self._slot_count:
            self._wake_first(self._waiting)

    def _wake_first(self, waiting: dict[ReadQueue, None]) -> None:
        queue = next(iter(waiting))
        del waiting[queue]
        queue.start_more()

    def forget(self, queue: ReadQueue) -> None:
        self._waiting.pop(queue, None)
        self._waiting_urgently.pop(queue, None)


class ReadQueue:
    """First come, first started, urgent ones before; answers may overtake each other, as the protocol allows."""

    def __init__(
        self,
        slots: ReadSlots,
        running_max: int,
        may_start: Callable[[bool], bool],
        on_change: Callable[[], None],
        on_running: Callable[[int], None],
    ) -> None:
        """`may_start(urgent)`: whether there is a place for the answer of one more read.

        `on_running(change)`: one more read runs (1), or one fewer (-1). `on_change`: fewer reads wait.
        """
        self._slots = slots
        self._running_max = running_max
        self._may_start = may_start
        self._on_change = on_change
        self._on_running = on_running
        self._waiting: deque[Work] = deque()
        self._urgent: deque[Work] = deque()
        self._running: dict[asyncio.Task[None], None] = {}
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._urgent)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._urgent or self._running)

    def submit(self, work: Work, *, urgent: bool = False) -> None:
        """Dropped if the connection is closed: its fence may become durable after that."""
        if self._closed:
            return
        (self._urgent if urgent else self._waiting).append(work)
        self.start_more()

    def start_more(self) -> None:
        """Start what may start; to be called again whenever `may_start` may have turned true."""
        self._start(self._urgent, self._running_max + 1, urgent=True)
        self._start(self._waiting, self._running_max, urgent=False)

    def _start(self, waiting: deque[Work], running_max: int, *, urgent: bool) -> None:
        while waiting and len(self._running) < running_max and self._may_start(urgent):
            if not self._slots.take(self, urgent=urgent):
                return
            task = asyncio.get_running_loop().create_task(waiting.popleft()())
            self._running[task] = None
            self._on_running(1)
            task.add_done_callback(self._finished)

    def close(self, *, cancel: bool) -> None:
        """The connection is closed: drop the reads that wait.

        Those that run keep their slots to their end, because the disk does their work all the same: peers that give up
        and come again would have any number of them under way. `cancel`: not when the bookie stops.
        """
        self._closed = True
        self._waiting.clear()
        self._urgent.clear()
        self._slots.forget(self)
        if cancel:
            for task in self._running:
                task.cancel()

    def _finished(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._on_running(-1)
        if not self._closed:
            self.start_more()
        self._slots.give_back()
        if not self._closed:
            self._on_change()
        if not task.cancelled():
            task.result()  # a bug in a read belongs to the loop's exception handler
