"""Backpressure by bytes: which caller may append now, and in which order the others follow.

A writer has a limit of its own, and all writers of a client share one. A writer may always hold a little, whatever the
others hold, so one whose bookies answer goes on while those of the others hang.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from ledger.errors import LogStoreError


class SharedByteBudget:
    """Of all writers of one client. Writers that wait for it are served in order, one caller of each at a time.

    A writer learns that it is used up at its next entry, so that nothing is looked up here for each message. It is
    exceeded by an entry or two of each writer.
    """

    __slots__ = ("_waiting", "bytes_max", "promised", "used", "writers")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.promised = 0
        self.writers = 0
        self._waiting: OrderedDict[ByteBudget, None] = OrderedDict()
        """In order: those whose first caller waits for nothing else."""

    @property
    def is_full(self) -> bool:
        """Whether a newcomer has to wait."""
        return bool(self._waiting) or self.used + self.promised >= self.bytes_max

    def queue(self, budget: ByteBudget) -> None:
        """Wake its first caller in its turn. One that waits already keeps its place."""
        self._waiting.setdefault(budget)

    def leave(self, budget: ByteBudget) -> None:
        """None of its callers waits any more, or its own limit is what they wait for."""
        self._waiting.pop(budget, None)

    def wake(self) -> None:
        """Wake, in order, the writers that fit now."""
        while self._waiting and self.used + self.promised < self.bytes_max:
            self._waiting.popitem(last=False)[0].wake_first()


class ByteBudget:
    """A first-come, first-served byte budget, entered while any of it is left: exceeded by an entry or two.

    Order holds between woken and new callers, too: a caller that comes while another waits, or was woken or cancelled
    and has not run yet, queues after it.
    """

    __slots__ = (
        "_bytes_max",
        "_bytes_min",
        "_promised",
        "_shared",
        "_used",
        "_waiting",
        "_woken",
        "tight",
    )

    def __init__(self, bytes_max: int, shared: SharedByteBudget, *, bytes_min: int) -> None:
        """`bytes_min`: while less is used, it may be entered however much is used of `shared`."""
        self._bytes_max = bytes_max
        self._bytes_min = bytes_min
        self._shared = shared
        self._used = 0
        self._promised = 0
        self._woken = 0
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        """In order, with their sizes."""
        self.tight = False
        """Whether a newcomer has to ask `has_capacity`. A plain attribute: it is read once per message."""
        shared.writers += 1

    @property
    def used(self) -> int:
        return self._used

    def free(self, collected: int) -> int:
        """Bytes that callers may collect in addition to `collected`, to enter with them later.

        Half of what is left of the shared budget is divided among all writers. Each has one byte at least: then one
        caller collects.
        """
        used, shared = self._used + collected, self._shared
        part = (shared.bytes_max - shared.used) // (2 * max(1, shared.writers))
        return min(self._bytes_max - used, max(1, self._bytes_min - used, part))

    def has_capacity(self) -> bool:
        """Whether a newcomer may enter now."""
        if self.tight:
            self._set_tight()
        return not self.tight

    def take(self, size: int) -> None:
        self._used += size
        self._shared.used += size
        if not self.tight:
            self._set_tight()

    def give_back(self, size: int) -> None:
        """Free bytes and wake, in order, the callers that fit now."""
        self._used -= size
        self._shared.used -= size
        if self.tight:
            self._wake()
        self._shared.wake()

    async def wait(self, size: int) -> None:
        """Return when it is the caller's turn; it then takes about `size` bytes without waiting.

        Cancelling gives up the place in the queue.
        """
        if self.has_capacity():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = size
        if len(self._waiting) == 1 and not self._woken and self._fits:
            self._shared.queue(self)  # nothing else is in its way
        try:
            await future
        except asyncio.CancelledError:
            if not future.done() or future.cancelled():
                self._waiting.pop(future, None)
                self._wake()
                self._shared.wake()
            elif future.exception() is None:
                self._arrived(size)
            raise
        self._arrived(size)

    def refuse_all(self, error: LogStoreError) -> None:
        """Fail every waiting caller with a copy of this error."""
        waiting, self._waiting = self._waiting, OrderedDict()
        self._shared.leave(self)
        for future in waiting:
            if not future.done():
                future.set_exception(error.copy())

    def close(self) -> None:
        """Its writer has ended, and everything is given back."""
        self._shared.writers -= 1

    def wake_first(self) -> None:
        """Its turn in the shared budget has come: wake the first caller, and queue there again for the next."""
        if self._fits:
            self._wake_one()
        self._wake()

    def _arrived(self, size: int) -> None:
        self._woken -= 1
        self._promised -= size
        self._shared.promised -= size
        if not self._woken:
            # The last one continues before any other task runs, and may take nothing after all (its message may be
            # too large): so the next one must not depend on what it gives back.
            self._wake()
        self._shared.wake()

    def _wake(self) -> None:
        while self._fits and not (self._must_share and self._shared.is_full):
            self._wake_one()
        if self._fits:
            self._shared.queue(self)
        else:
            self._shared.leave(self)
        self._set_tight()

    def _wake_one(self) -> None:
        future, size = self._waiting.popitem(last=False)
        self._woken += 1
        self._promised += size
        self._shared.promised += size
        future.set_result(None)

    @property
    def _fits(self) -> bool:
        """Whether a caller waits that could be woken, as far as this writer is concerned."""
        if self._used + self._promised >= self._bytes_max or not self._waiting:
            return False
        return not next(
            iter(self._waiting)
        ).done()  # cancelled: the next one is woken once its task has noted that

    @property
    def _must_share(self) -> bool:
        return self._used + self._promised >= self._bytes_min

    def _set_tight(self) -> None:
        crowded = bool(self._waiting) or self._woken > 0
        full = self._used >= self._bytes_max or (self._used >= self._bytes_min and self._shared.is_full)
        self.tight = crowded or full
