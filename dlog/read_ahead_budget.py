"""The limit on what all readers of one client hold of what they have fetched and not yet returned.

Invariant: a reader with nothing ready to return never waits here, so none depends on the consumer of another one. Once
the limit is reached it asks for little. So the limit is exceeded by two fetches of _SMALLEST_FETCH_BYTES for each
reader at most, the one that it is returning and the next one, and by entries that are larger than such a fetch.

A reader with something ready fetches more only within the limit, first come, first served. Entries that readers of one
log share count once for each of these readers.

Source: docs/log-semantics.md#rule-32.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

_SMALLEST_FETCH_BYTES = 64 * 1024


class ReadAheadBudget:
    """Of one client."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._shares: set[ReadAheadShare] = set()
        self._waiting: OrderedDict[ReadAheadShare, tuple[asyncio.Future[int], int]] = OrderedDict()
        """In order, with the bytes that each wants to fetch."""
        self.used = 0
        """What readers hold, and what they have asked for."""

    def open_share(self) -> ReadAheadShare:
        """That of one more reader, which closes it."""
        share = ReadAheadShare(self)
        self._shares.add(share)
        return share

    @property
    def free(self) -> int:
        """Bytes that may be asked for without overtaking a reader that waits."""
        return 0 if self._waiting else max(0, self._bytes_max - self.used)

    def _fetch_bytes(self, wanted: int) -> int:
        """What a fetch that begins now asks for: less than wanted if that is not left. It may be more than is left."""
        left = self._bytes_max - self.used
        if wanted <= left:
            return wanted
        fair = self._bytes_max // max(1, len(self._shares))
        return min(wanted, max(_SMALLEST_FETCH_BYTES, min(fair, left)))

    def _wake(self) -> None:
        while self._waiting:
            share, (future, wanted) = next(iter(self._waiting.items()))
            if not future.done():
                size = self._fetch_bytes(wanted)
                if self.used + size > self._bytes_max:
                    return
                share._grant(future, size)
            del self._waiting[share]  # a done one was cancelled


class ReadAheadShare:
    """Of one reader, in the budget of its client.

    What the reader holds is set as a whole: whatever way bytes leave the reader, none of them stays counted.
    """

    def __init__(self, budget: ReadAheadBudget) -> None:
        self._budget = budget
        self._held = 0
        self._asked = 0
        """Of the fetch that is under way."""
        self._has_ready = False
        self._is_closed = False

    @property
    def free(self) -> int:
        """Bytes that the reader may ask for in addition, without waiting."""
        return self._budget.free

    def hold(self, held: int, *, has_ready: bool) -> None:
        """The reader holds this many bytes in total. `has_ready`: some of them could be returned now."""
        self._has_ready = has_ready
        self._count(held, self._asked)
        waiting = self._budget._waiting.get(self)
        if waiting is not None and not has_ready:
            future, wanted = self._budget._waiting.pop(self)
            if not future.done():
                self._grant(future, self._budget._fetch_bytes(wanted))
            self._budget._wake()  # those after it may want less

    async def ask(self, wanted: int) -> int:
        """Bytes that the next fetch may bring: `wanted`, or fewer. Waits only while something is ready.

        They count until `fetched` is called. A cancelled call leaves nothing counted.
        """
        budget = self._budget
        size = budget._fetch_bytes(wanted)
        if not self._has_ready or size <= budget.free:
            self._count(self._held, size)
            return size
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        budget._waiting[self] = future, wanted
        try:
            return await future
        except asyncio.CancelledError:
            budget._waiting.pop(self, None)
            self.fetched()
            budget._wake()
            raise

    def fetched(self) -> None:
        """The fetch has ended. What it has brought is held by now."""
        self._count(self._held, 0)

    def close(self) -> None:
        """The reader holds nothing any more, and will not. A second call does nothing."""
        self._budget._waiting.pop(self, None)
        self._budget._shares.discard(self)
        self._count(0, 0)
        self._is_closed = True
        self._budget._wake()

    def _grant(self, future: asyncio.Future[int], size: int) -> None:
        self._count(self._held, size)
        future.set_result(size)

    def _count(self, held: int, asked: int) -> None:
        if self._is_closed:
            return
        more = held + asked - self._held - self._asked
        self._held, self._asked = held, asked
        self._budget.used += more
        if more < 0:
            self._budget._wake()
