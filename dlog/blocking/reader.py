"""The blocking API of a reader: an iterator of messages, or of batches.

Invariant: a message or batch that was fetched stays with the reader until the moment it is returned, so neither an
interrupt nor a second thread makes it vanish. What several threads or a signal can see is only ever taken by a
`for` statement over a list's iterator, which hands out an element and binds it in one step: CPython looks for
signals, and switches threads, at calls and jumps, and there is none between that step and the return.

Invariant: `_current` is replaced by what comes after it, and only once no message of it is left. Threads that take
messages and threads that take batches therefore share one order. What is not a message of `_current` is taken from
`_parts` under the lock `_opening`: to build its messages, or to wait in `_whole` for a thread that takes batches. While
a part is in `_whole`, no other part is opened before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dlog.blocking.deadline import Deadline
from dlog.blocking.forwarding import forwards
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.not_copied import NotCopied
from dlog.core.tailing import Gap
from dlog.model import Cursor, Message, MessageId
from dlog.read.backlog import Lag
from dlog.read.batch import MessageBatch
from dlog.read.fetcher import NotYetError
from dlog.read.reader import Reader as AsyncReader
from dlog.read.reader import require_poll_s
from ledger.errors import UnavailableError

if TYPE_CHECKING:
    import pyarrow as pa

    from dlog.arrow.record_batches import Made, RecordBatches

_ITEMS_AT_ONCE = 64
"""Small entries decoded in one visit to the loop: a visit costs as much as decoding some dozen of them."""

_OPENING_S_MAX = 0.1
"""Longer than a thread that runs needs to build the messages of a batch."""

_NOTHING: Iterator[Any] = iter([])


class _Part:
    """One batch, gap or record batch, and the position before and after it. `messages`: those not yet returned."""

    __slots__ = ("after", "before", "claimed", "item", "messages")

    def __init__(
        self, item: Any, before: MessageId, after: MessageId, messages: Iterator[Any] = _NOTHING
    ) -> None:
        self.item, self.before, self.after, self.messages = item, before, after, messages
        self.claimed: list[Any] = []
        """Messages that are to be returned as a batch, and no longer one by one."""

    @property
    def left(self) -> int:
        """Number of messages that were not returned."""
        left = length_hint(self.messages)  # first: they move to `claimed`, all in one step
        return left or len(self.claimed)

    @property
    def position(self) -> MessageId:
        left = self.left
        if not left:
            return self.after
        if isinstance(self.item, Gap) or left == len(self.item):
            return self.before
        batch: MessageBatch = self.item
        return MessageId(batch.ledger_id, batch.entry_id, batch.first_index + len(batch) - left)

    def opened(self) -> _Part:
        """The same with its message objects built."""
        messages = [self.item] if isinstance(self.item, Gap) else list(self.item)
        return _Part(self.item, self.before, self.after, iter(messages))

    def rest(self) -> _Part | None:
        """The part that was not returned, as a whole; None if nothing is left. Its messages are no longer returned."""
        self.claimed.extend(self.messages)  # one step: from now on no thread and no signal takes one of them
        left = len(self.claimed)
        if not left or isinstance(self.item, Gap) or left == len(self.item):
            return _Part(self.item, self.before, self.after) if left else None
        batch: MessageBatch = self.item
        stop = batch.first_index + len(batch)
        return _Part(batch.slice(stop - left, stop), self.position, self.after)


class Reader(NotCopied):
    """A reader of a log: an iterator of messages, in order; `with` closes it.

    Iteration ends at `until`, or at the end of a sealed log; otherwise it waits for more messages. Several threads may
    iterate over one reader: each message, or batch, goes to one of them, and ids increase within each thread. After
    Ctrl-C iteration continues where it was.

    Raises:
        LogNotFoundError: no such log, or it was deleted, or is being deleted.
        TrimmedError: messages at the position were trimmed, and `on_trimmed` is `fail`.
        UnknownPositionError: the position is above every ledger of the log.
        DataLossError: a listed ledger or a confirmed entry is lost, and `on_data_loss` is `fail`.
        HistoryPageError: a page of the ledger list is lost, and `on_data_loss` is `fail`; or a later release wrote it.
        EntryFormatError: an entry cannot be decoded. The next call raises again.
        MissingExtraError: the package that decompresses an entry is not installed. The next call raises again.
        DigestMismatchError: no intact copy of an entry was found, and at least one copy is damaged.
        UnauthorizedError: `LogConfig.password` is not the password of the log's ledgers.
        ReadError, MetadataUnavailableError: bookies or the metadata store did not respond for `unavailable_timeout_s`,
            also when the reader opens. The next call waits anew, and goes on if they respond. A reader without `until`
            that has read before waits instead, and `waits_for` gives the reason.
        ConfigurationError: the reader or its client is closed, or it may return gaps and is not iterated by `items` or
            `batch_items`. Without `until`, iteration that is waiting when the reader is closed ends without an error.
        ForkedError: used in a process forked from the one that opened it.

    Source: docs/log-semantics.md#rule-26 to #rule-30.
    """

    def __init__(self, thread: LoopThread, reader: AsyncReader) -> None:
        self._thread = thread
        self._target = reader
        self._fetching = asyncio.Lock()
        self._opening = threading.Lock()
        self._parts: Iterator[_Part] = iter([])
        self._taken: _Part | None = None
        """Taken from `_parts`, or the rest of `_current`; its message objects are not built yet."""
        self._whole: Iterator[_Part] = iter([])
        """At most one part, for the next thread that takes batches."""
        self._current: _Part | None = None
        self._made: Iterator[_Part] = iter([])
        """A record batch that was not yet returned. While there is one, nothing is in `_parts`."""
        self._made_as: object = None
        """The request that it was made for."""

    def __repr__(self) -> str:
        return self._target.repr_at(self.position)

    # ---- iteration

    def __iter__(self) -> Iterator[Message]:
        aiter(self._target)  # it refuses where gaps could come
        return self._iterate()

    def __next__(self) -> Message:
        while True:
            if (current := self._current) is not None:
                for message in current.messages:
                    return message  # type: ignore[no-any-return]  # gaps were refused
            aiter(self._target)
            if not self._open_next() and not self._fetch():
                raise StopIteration

    def poll(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None if none comes within `timeout_s` seconds, or at the end (`ended`).

        Nothing is lost at the timeout: the next call, or iteration, returns what has come. A timeout of 0 returns what
        is fetched already, or None; the reader goes on fetching in the background.

        Raises:
            ConfigurationError: `timeout_s` is not a number of 0 or more; a policy is `gap`: iterate over `items`.
            The errors of iterating.
        """
        require_poll_s(timeout_s)
        deadline = None if timeout_s is None else Deadline(timeout_s)
        while True:
            if (current := self._current) is not None:
                for message in current.messages:
                    return message  # type: ignore[no-any-return]  # gaps were refused
            aiter(self._target)
            if not self._open_next() and not self._fetch(deadline):
                return None

    def _iterate(self) -> Iterator[Any]:
        while True:
            current = self._current
            for message in () if current is None else current.messages:
                yield message
                if self._current is not current:
                    break  # another call went on from here
            else:
                if not self._open_next() and not self._fetch():
                    return

    def batches(self) -> Iterator[MessageBatch]:
        """Iterate over batches: the messages of one entry each, in columns. The fastest way to read many messages.

        Raises:
            ConfigurationError: a policy is `gap`: use `batch_items`.
            The errors of iterating.
        """
        self._target.refuse_gaps("iterate over batch_items()")
        return self._iterate_whole()

    def items(self) -> Iterator[Message | Gap]:
        """Iterate over messages and, where a policy is `gap`, gaps."""
        return self._iterate()

    def batch_items(self) -> Iterator[MessageBatch | Gap]:
        """Iterate over batches and, where a policy is `gap`, gaps."""
        return self._iterate_whole()

    def arrow_batches(
        self, columns: Sequence[str] | None = None, *, batch_rows: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow record batches of `batch_rows` rows, each with 32 MiB of data at most, plus one entry.

        `columns` chooses columns and their order; without it there are all except `headers` (docs/arrow.md). The last
        batch has fewer rows. Without `until`, so has one whose first row has waited for 0.1 s. What was returned as
        rows counts as returned: iteration of any kind continues after it.

        Raises:
            MissingExtraError: pyarrow is not installed.
            ConfigurationError: a policy is `gap`: use `batch_items`; a column is unknown; `batch_rows` is below 1.
            The errors of iterating.
        """
        return self._iterate_made(self._target.record_batches("arrow_batches", columns, batch_rows))

    def to_arrow(self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None) -> pa.Table:
        """Everything from `position` up to `until` as one Arrow table. All of it must fit into memory.

        `columns` is that of `arrow_batches`. What a call that fails or is cancelled has read is not returned again, and
        `ack` refuses to acknowledge it: to repeat it, open another reader.

        Raises:
            MissingExtraError: pyarrow is not installed.
            ConfigurationError: the reader has no `until`; a policy is `gap`: use `batch_items`; a column is unknown.
            CallTimeoutError: it takes longer than `timeout_s` seconds.
            The errors of iterating.
        """
        began_at: list[MessageId] = []
        try:
            return self._thread.run_within(timeout_s, "to_arrow", self._to_arrow, columns, began_at)
        except BaseException:  # Ctrl-C, too, although the table may be complete
            for before in began_at:
                self._target.note_unreturned(before)
            raise

    def _iterate_made(self, batches: RecordBatches) -> Iterator[pa.RecordBatch]:
        while self._thread.run(self._make, batches):
            for part in self._made:
                self._current = part
                yield part.item.batch

    async def _make(self, batches: RecordBatches) -> bool:
        """On the loop: provide a record batch to return; False at the end. It is kept if the caller goes away."""
        async with self._fetching:
            if length_hint(self._made) and self._made_as == batches.request:
                return True  # another thread's call did, or one that was interrupted
            await self._hand_over()
            made = await batches.make()
            if made is None:
                self._reached(self._target.position)
                return False
            self._made, self._made_as = iter([_Part(made, made.before, made.after)]), batches.request
            return True

    async def _to_arrow(self, columns: Sequence[str] | None, began_at: list[MessageId]) -> pa.Table:
        async with self._fetching:
            await self._hand_over()
            began_at.append(self._target.position)
            try:
                return await self._target.to_arrow(columns)
            finally:
                self._reached(self._target.position)

    async def _hand_over(self) -> None:
        """On the loop: have the asyncio reader return next what is here and was not returned."""
        await self._target.open()
        self._put_made_back()
        with self._opening:
            self._take_rest()
            parts = [*([] if self._taken is None else [self._taken]), *self._whole, *self._parts]
            self._taken = None
            if parts:
                self._target.put_back([(part.item, part.after) for part in parts], parts[0].position)
            self._reached(self._target.position)

    def _put_made_back(self) -> None:
        """On the loop: of a record batch that was not returned, have its messages returned again."""
        for part in self._made:
            made: Made = part.item
            self._target.put_back(made.taken, made.before, in_place_of_first=made.has_rest)

    def _reached(self, position: MessageId) -> None:
        self._current = _Part(None, position, position)

    def _iterate_whole(self) -> Iterator[Any]:
        while True:
            for part in self._whole:
                self._current = part
                yield part.item
                break  # another call may have begun the next one
            else:
                if not self._provide_whole() and not self._fetch():
                    return

    def _provide_whole(self) -> bool:
        """Provide a part to return as a whole; False if nothing is fetched."""
        with self._opening:
            if length_hint(self._whole):
                return True  # another thread did
            self._take_rest()
            self._take_part()
            taken = self._taken
            if taken is None:
                return False
            self._whole, self._taken = iter([taken]), None
            return True

    def _open_next(self) -> bool:
        """Provide messages to return; False if nothing is fetched."""
        with self._opening:
            if self._current is not None and length_hint(self._current.messages):
                return True  # another thread did
            self._take_rest()  # of a batch, if a signal came before it was provided
            self._take_part()
            taken = self._taken
            if taken is None:
                return False
            opened = taken.opened()
            self._current, self._taken = opened, None
            return True

    def _take_rest(self) -> None:
        """With the lock: take what was not returned of a batch whose messages were being returned."""
        if self._current is not None and (rest := self._current.rest()) is not None:
            self._current, self._taken = _Part(None, rest.before, rest.before), rest

    def _take_part(self) -> None:
        """With the lock: unless one is taken already, take what comes next."""
        if self._taken is None:
            for self._taken in self._whole:  # noqa: B020 - taken and kept in one step
                return
            for self._taken in self._parts:  # noqa: B020
                return

    def _fetch(self, deadline: Deadline | None = None) -> bool:
        return self._thread.run(self._fetch_parts, None if deadline is None else deadline.left_s())

    async def _fetch_parts(self, left_s: float | None) -> bool:
        """On the loop: provide parts to return; False at the end, or if there is none within `left_s` seconds.

        What was fetched is kept if the caller goes away.
        """
        give_up_at = None if left_s is None else self._thread.loop.time() + left_s
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._fetching.acquire()
        except TimeoutError:
            return False  # another thread's call waits
        try:
            if length_hint(self._parts):
                return True  # another thread's call did
            await self._target.open_by(give_up_at)
            self._put_made_back()
            before = self._target.position
            if self._current is None:
                self._current = _Part(None, before, before)
            parts = []
            for item, after in await self._target.next_items(_ITEMS_AT_ONCE, give_up_at=give_up_at):
                parts.append(_Part(item, before, after))
                before = after
            self._parts = iter(parts)
            return bool(parts)
        except NotYetError:
            return False
        finally:
            self._fetching.release()

    # ---- its cursor

    def ack(
        self,
        upto: Message | MessageId | str | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Acknowledge everything up to this message, and it; without one, everything that was returned.

        On return the reader's cursor is durably behind it: a later reader with this cursor starts there. Cumulative:
        to acknowledge what was acknowledged before asks no store. Anything else is one change in the metadata store, so
        acknowledge now and then, not each message. `properties` replace those that the cursor has.

        Raises:
            CursorMovedError: a newer reader has taken the cursor over, or it was set: stop.
            CursorNotFoundError: the cursor was removed, perhaps with its log.
            ConfigurationError: the reader has no cursor, the message was not returned yet, or a `to_arrow` that failed
                has read it or one before it; or the properties are no texts, more than 64, or have more than 32 KiB
                together.
            MetadataUnavailableError: nothing was changed; acknowledge again.
            MetadataOutcomeUnknownError, CallTimeoutError: it may have been acknowledged; acknowledge again.

        Source: docs/log-semantics.md#rule-35.
        """
        self._thread.run_within(timeout_s, "ack", self._target.ack_below, self.position, upto, properties)

    @property
    def cursor(self) -> Cursor | None:
        """The reader's cursor as last seen; None without one, or before the reader opens. Asks no store."""
        return self._target.cursor

    # ---- where it is

    @property
    def position(self) -> MessageId:
        """The next id to return. A reader started there continues without loss or repetition.

        Until it is open: the id it was given to start at, or 0:0:0 if it was given another place.
        """
        return self._target.position if self._current is None else self._current.position

    @property
    def at_tail(self) -> bool:
        """Whether everything known to be readable has been returned. Asks no bookie and no store."""
        return self._thread.call(lambda: not self._has_more and self._target.at_tail)

    @property
    def ended(self) -> bool:
        """Whether everything up to `until`, or to the end of a sealed log, has been returned."""
        return self._thread.call(lambda: not self._has_more and self._target.ended)

    @property
    def lag(self) -> Lag:
        """Distance from the tail as far as known here: what was fetched, what the reader's ledger is known to have, and
        what the list says of sealed ledgers after it. Messages and bytes are None unless the reader is at the tail:
        `measure_lag` counts them. Asks no bookie and no store.
        """
        return self._thread.call(self._lag)

    def _lag(self) -> Lag:
        made = [taken for part in copy(self._made) for taken in part.item.taken]  # the copy: nothing is taken
        return self._target.lag_from(self.position, made)

    def measure_lag(self, *, timeout_s: float | None = None) -> Lag:
        """What is readable from `position` on up to the tail, whatever `until` is, also in messages and bytes.

        Every append that had succeeded before the call counts. Reads the log's record and up to two entries.

        Raises:
            ReadError, DataLossError: the tail cannot be determined.
            LogNotFoundError: there is no such log any more.
            MetadataUnavailableError: the metadata store cannot be reached.
            CallTimeoutError: it takes longer.
        """
        return self._thread.run_within(timeout_s, "measure_lag", self._target.measure_lag_from, self.position)

    @property
    def waits_for(self) -> str | None:
        """Why no message comes at the moment, as a sentence; None while there is something to return."""
        return self._thread.call(lambda: None if self._has_more else self._target.waits_for)

    @property
    def outage(self) -> UnavailableError | None:
        """The latest error of bookies or the metadata store because of which no message comes, while it is tried again.

        None while they respond.
        """
        return self._thread.call(lambda: None if self._has_more else self._target.outage)

    @property
    def _has_more(self) -> bool:
        """Whether something is fetched and not yet returned."""
        here = self._current is not None and self._current.left > 0
        return (
            here
            or self._taken is not None
            or any(length_hint(each) for each in (self._whole, self._parts, self._made))
        )

    # ---- life

    @forwards(AsyncReader.open)
    def open(self, *, timeout_s: float | None = None) -> None: ...

    def close(self, *, timeout_s: float | None = None) -> None:
        """Stop reading ahead; `position` stays valid. In a forked process it does nothing.

        Raises:
            CallTimeoutError: not closed within `timeout_s` seconds.
        """
        if self._thread.usable and not self._thread.lost:
            with self._thread.unless_closed():
                self._thread.run_within(timeout_s, "close", self._close)

    async def _close(self) -> None:
        # Its holder may be a thread that a signal has interrupted, and whose handler waits for this call.
        is_mine = self._opening.acquire(timeout=_OPENING_S_MAX)
        try:
            self._take_rest()
            self._reached(self.position)
            self._whole, self._parts, self._taken, self._made = iter([]), iter([]), None, iter([])
        finally:
            if is_mine:
                self._opening.release()
        await self._target.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
