"""The blocking API of a reader: an iterator of messages, or of batches.

Invariant: a message or batch that was fetched stays with the reader until the moment it is returned, so neither an
interrupt nor a second thread makes it vanish. What several threads or a signal can see is only ever taken by a
`for` statement over a list's iterator, which hands out an element and binds it in one step: CPython looks for
signals, and switches threads, at calls and jumps, and there is none between that step and the return.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from operator import length_hint
from types import TracebackType
from typing import Any, Self

from dlog.blocking.loop_thread import LoopThread
from dlog.core.tailing import Gap
from dlog.model import Message, MessageId
from dlog.read.batch import MessageBatch
from dlog.read.reader import Lag
from dlog.read.reader import Reader as AsyncReader

_ITEMS_AT_ONCE = 64
"""Entries decoded in one visit to the loop: a visit costs as much as decoding some dozen small ones."""

_NOTHING: Iterator[Any] = iter([])


class _Part:
    """One batch or gap, and the position before and after it. `messages`: those of it not yet returned."""

    __slots__ = ("after", "before", "item", "messages")

    def __init__(
        self, item: Any, before: MessageId, after: MessageId, messages: Iterator[Any] = _NOTHING
    ) -> None:
        self.item, self.before, self.after, self.messages = item, before, after, messages

    @property
    def position(self) -> MessageId:
        left = length_hint(self.messages)
        if not left:
            return self.after
        if isinstance(self.item, Gap) or left == len(self.item):
            return self.before
        batch: MessageBatch = self.item
        return MessageId(batch.ledger_id, batch.entry_id, batch.first_index + len(batch) - left)

    def opened(self) -> _Part:
        """The same with its messages made."""
        messages = [self.item] if isinstance(self.item, Gap) else list(self.item)
        return _Part(self.item, self.before, self.after, iter(messages))

    def rest(self) -> _Part | None:
        """What has not been returned of it, as a whole; None if nothing is left."""
        left = length_hint(self.messages)
        if not left or isinstance(self.item, Gap) or left == len(self.item):
            return _Part(self.item, self.before, self.after) if left else None
        batch: MessageBatch = self.item
        stop = batch.first_index + len(batch)
        return _Part(batch.slice(stop - left, stop), self.position, self.after)


class Reader:
    """A reader of a log, as an iterator of messages; `with` closes it.

    Several threads may iterate over one reader: each message, or batch, goes to one of them, and each thread's own
    rise. After Ctrl-C it goes on where it was.
    """

    def __init__(self, thread: LoopThread, reader: AsyncReader) -> None:
        self._thread = thread
        self._reader = reader
        self._fetching = asyncio.Lock()
        self._opening = threading.Lock()
        self._parts: Iterator[_Part] = iter([])
        self._taken: _Part | None = None
        """Taken from `_parts`, its messages not yet made."""
        self._current: _Part | None = None

    # ---- iteration

    def __iter__(self) -> Iterator[Message]:
        aiter(self._reader)  # it refuses where gaps could come
        return self._iterate()

    def __next__(self) -> Message:
        while True:
            if (current := self._current) is not None:
                for message in current.messages:
                    return message  # type: ignore[no-any-return]  # gaps were refused
            aiter(self._reader)
            if not self._open_next() and not self._fetch():
                raise StopIteration

    def _iterate(self) -> Iterator[Any]:
        while True:
            if (current := self._current) is not None:
                yield from current.messages
            if not self._open_next() and not self._fetch():
                return

    def batches(self) -> Iterator[MessageBatch]:
        """A batch per entry, in columns: the fast way to read much."""
        aiter(self._reader)
        return self._iterate_whole()

    def items(self) -> Iterator[Message | Gap]:
        """Messages, and gaps where the policy is `gap`."""
        return self._iterate()

    def batch_items(self) -> Iterator[MessageBatch | Gap]:
        """Batches, and gaps where the policy is `gap`."""
        return self._iterate_whole()

    def _iterate_whole(self) -> Iterator[Any]:
        while True:
            left = self._left()
            if left is not None:
                self._current, self._taken = left, None  # and no call before it is returned
                yield left.item
            for part in self._parts:
                self._current = part
                yield part.item
            if not self._fetch():
                return

    def _left(self) -> _Part | None:
        """Of a batch whose messages were being returned."""
        if self._taken is not None:
            return self._taken
        return None if self._current is None else self._current.rest()

    def _open_next(self) -> bool:
        """Have messages to return; False if nothing is fetched."""
        with self._opening:
            if self._current is not None and length_hint(self._current.messages):
                return True  # another thread did
            if self._taken is None:
                for self._taken in self._parts:  # noqa: B020 - taken and kept in one step
                    break
            if self._taken is None:
                return False
            opened = self._taken.opened()
            self._current, self._taken = opened, None
            return True

    def _fetch(self) -> bool:
        return self._thread.run(self._fetch_parts)

    async def _fetch_parts(self) -> bool:
        """On the loop: have parts to return; False at the end. What came is kept even if its caller went away."""
        async with self._fetching:
            if length_hint(self._parts):
                return True  # another thread's call did
            await self._reader.open()
            before = self._reader.position
            if self._current is None:
                self._current = _Part(None, before, before)
            parts = []
            for item, after in await self._reader.next_items(_ITEMS_AT_ONCE):
                parts.append(_Part(item, before, after))
                before = after
            self._parts = iter(parts)
            return bool(parts)

    # ---- where it is

    @property
    def position(self) -> MessageId:
        """The next id to return; a reader started there goes on without loss or repetition."""
        return self._reader.position if self._current is None else self._current.position

    @property
    def at_tail(self) -> bool:
        """Everything that is known to be readable has been returned."""
        return self._thread.call(lambda: not self._has_more and self._reader.at_tail)

    @property
    def lag(self) -> Lag:
        """As far as known here; asks nobody."""
        return self._thread.call(lambda: self._reader.lag_from(self.position))

    @property
    def waits_for(self) -> str | None:
        """Why nothing comes at the moment, as a sentence; None while there is something to return."""
        return self._thread.call(lambda: None if self._has_more else self._reader.waits_for)

    @property
    def _has_more(self) -> bool:
        """Whether something is fetched and not yet returned."""
        here = self._current is not None and length_hint(self._current.messages) > 0
        return here or self._taken is not None or length_hint(self._parts) > 0

    # ---- life

    def open(self) -> None:
        """Find the log, and fix where the reader begins and ends."""
        self._thread.run(self._reader.open)

    def close(self) -> None:
        """Stop reading ahead. `position` stays. In a forked process it does nothing."""
        if self._thread.usable:
            self._thread.run(self._close)

    async def _close(self) -> None:
        position = self.position
        self._parts, self._taken, self._current = iter([]), None, _Part(None, position, position)
        await self._reader.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
