"""Backpressure by bytes: which caller may append now, and in which order the others follow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from ledger.errors import LogStoreError


class ByteBudget:
    """A first-come, first-served byte budget, entered while any of it is left: exceeded by an entry or two.

    Order holds between woken and new callers, too: a caller that comes while another waits, or was woken or cancelled
    and has not run yet, queues after it.
    """

    __slots__ = (
        "_bytes_max",
        "_promised",
        "_used",
        "_waiting",
        "_woken",
        "tight",
    )

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._promised = 0
        self._woken = 0
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        """In order, with their sizes."""
        self.tight = False
        """Whether a newcomer has to wait. A plain attribute: it is read once per message."""

    @property
    def used(self) -> int:
        return self._used

    def take(self, size: int) -> None:
        self._used += size
        if self._used >= self._bytes_max:
            self.tight = True

    def give_back(self, size: int) -> None:
        """Free bytes and wake, in order, the callers that fit now."""
        self._used -= size
        if self.tight:
            self._wake()

    async def wait(self, size: int) -> None:
        """Return when it is the caller's turn; it then takes about `size` bytes without waiting.

        Cancelling gives up the place in the queue.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = size
        self.tight = True
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._arrived(size)
            else:
                self._waiting.pop(future, None)
                self._wake()
            raise
        self._arrived(size)

    def refuse_all(self, error: LogStoreError) -> None:
        """Fail every waiting caller with a copy of this error."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for future in waiting:
            if not future.done():
                future.set_exception(error.copy())

    def _arrived(self, size: int) -> None:
        self._woken -= 1
        self._promised -= size
        if not self._woken:
            # The last one continues before any other task runs, and may take nothing after all (its message may be
            # too large): so the next one must not depend on what it gives back.
            self._wake()

    def _wake(self) -> None:
        while self._waiting and self._used + self._promised < self._bytes_max:
            future = next(iter(self._waiting))
            if future.done():
                break  # cancelled: once its task has run, which has yet to note that, the next one is woken
            size = self._waiting.pop(future)
            self._woken += 1
            self._promised += size
            future.set_result(None)
        self._set_tight()

    def _set_tight(self) -> None:
        crowded = bool(self._waiting) or self._woken > 0
        self.tight = crowded or self._used >= self._bytes_max
