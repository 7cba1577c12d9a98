"""The reader of a log.

A background task fetches raw entries (dlog/read/fetcher.py); they are decoded here, one at a time, on demand. What is
fetched ahead therefore costs only its bytes, and the next fetch is under way while an entry is decoded. A reader
fences nothing and changes nothing.

Invariant (docs/log-semantics.md#rule-26 to #rule-30): ids increase; whatever is left out is reported as a gap, unless
the caller asked to skip it. What is fetched ahead is bounded (docs/log-semantics.md#rule-32).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from operator import length_hint
from types import TracebackType
from typing import Self
from weakref import finalize

from dlog.core.tailing import Gap, OnMissing, Tailing
from dlog.errors import EntryFormatError, LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, Cursor, LogName, Message, MessageId, check_log_name
from dlog.read.backlog import Lag
from dlog.read.batch import MessageBatch
from dlog.read.config import ReaderConfig
from dlog.read.fetcher import Fetched, Fetcher, NotYetError
from dlog.read.held_cursor import HeldCursor
from dlog.read.places import Places
from dlog.read.range import ReadRange
from dlog.read.slow_polls import SlowPolls
from ledger.arguments import require_choice, require_type
from ledger.client import LedgerClient
from ledger.errors import ConfigurationError
from ledger.reading.bookie_reads import Entry

_NOTHING: Iterator[Message] = iter(())


class Reader:
    """Returns messages in order, from one position on. One consumer at a time; a new loop continues after the last.

        async with client.reader("orders", start="earliest", until="latest") as reader:
            async for message in reader: ...

    It opens at the first message, or at `async with` (then `"latest"` means the tail as of now). Iteration ends at
    `until`, or at the end of a sealed log; otherwise it waits for more messages.

    Raises:
        LogNotFoundError: no such log, or it was deleted.
        TrimmedError: messages at the position were trimmed, and `on_trimmed` is `fail`.
        UnknownPositionError: the position is above every ledger of the log.
        DataLossError: a listed ledger or a confirmed entry is lost, and `on_data_loss` is `fail`.
        EntryFormatError: an entry cannot be decoded. The next call raises again.
        DigestMismatchError: no intact copy of an entry was found, and at least one copy is damaged.
        UnauthorizedError: `LogConfig.password` is not the password of the log's ledgers.
        ReadError, MetadataUnavailableError: bookies or the metadata store did not respond for `unavailable_timeout_s`.
            A reader without `until` that has read before waits instead, and `waits_for` gives the reason.
        ConfigurationError: the reader is closed, or it may return gaps and is not iterated by `items` or
            `batch_items`.

    Source: docs/log-semantics.md#rule-26 to #rule-30.
    """

    def __init__(
        self,
        logs: LogMetadataStore,
        ledgers: LedgerClient,
        log: LogName,
        wanted: ReadRange,
        slow_polls: SlowPolls,
        *,
        config: ReaderConfig | None = None,
        on_trimmed: OnMissing | str = OnMissing.FAIL,
        on_data_loss: OnMissing | str = OnMissing.FAIL,
        password: bytes = b"",
        cursor: str | None = None,
    ) -> None:
        self._logs = logs
        self._password = password
        self._ledgers = ledgers
        self._log = log
        self._wanted = wanted
        self._slow_polls = slow_polls
        self._cursor_name = None if cursor is None else check_log_name(cursor)
        self._held: HeldCursor | None = None
        require_type("config", config, ReaderConfig, type(None))
        self._config = config or ReaderConfig()
        self._on_trimmed = require_choice("on_trimmed", on_trimmed, tuple(OnMissing))
        self._on_data_loss = require_choice("on_data_loss", on_data_loss, (OnMissing.FAIL, OnMissing.GAP))
        self._fetcher: Fetcher | None = None
        self._until: MessageId | None = None
        self._position = EARLIEST_ID
        self._last = EARLIEST_ID
        self._returned: Message | None = None
        self._fetched: Fetched | None = None
        self._entries: Iterator[Entry] = iter(())
        self._messages = _NOTHING
        self._batch: MessageBatch | None = None
        self._closed = False
        self._ended = False
        self._opening: asyncio.Future[None] | None = None
        """An opening that took longer than a `poll`; it goes on."""

    def __repr__(self) -> str:
        return self.repr_at(self.position)

    def repr_at(self, position: MessageId) -> str:
        """The same for a consumer that has got no further than `position`."""
        return f"<Reader {self._log} at {position}{' closed' if self._closed else ''}>"

    # ---- life

    async def open(self) -> None:
        """Find the log and determine where the reader begins and ends. A second call does nothing.

        Raises:
            LogNotFoundError: no such log.
            ConfigurationError: the reader is closed.
            MetadataUnavailableError: the metadata store cannot be reached.
            ReadError, DataLossError: for a range that names the tail: it cannot be determined.
        """
        self._refuse_if_closed()
        if self._opening is not None:
            await self.open_by(None)
        elif self._fetcher is None:
            await self._open()

    async def open_by(self, give_up_at: float | None) -> None:
        """As `open`. NotYetError if it takes longer: then it goes on, and the next call waits for the rest."""
        self._refuse_if_closed()
        if self._fetcher is None and self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            # The next call raises its error; there may be none.
            self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
        if self._opening is not None:
            now = asyncio.get_running_loop().time()
            await asyncio.wait(
                (self._opening,), timeout=None if give_up_at is None else max(0, give_up_at - now)
            )
            if not self._opening.done():
                raise NotYetError
            self._refuse_if_closed()
            opening, self._opening = self._opening, None
            opening.result()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigurationError(f"the reader of log {self._log} is closed: open another one")

    async def _open(self) -> None:
        ref = await self._logs.find(self._log)
        places = Places(self._logs, ref, self._ledgers, self._password)
        self._position = await self._begin(ref, places)
        self._until = None if self._wanted.until is None else await places.find(self._wanted.until)
        machine = Tailing(
            str(self._log),
            position=self._position,
            until=self._until,
            from_earliest=self._position == EARLIEST_ID
            and self._held is None
            and not isinstance(self._wanted.start, MessageId),
            on_trimmed=self._on_trimmed,
            on_data_loss=self._on_data_loss,
        )
        self._fetcher = Fetcher(
            machine,
            self._logs,
            ref,
            self._ledgers,
            self._config,
            self._slow_polls,
            password=self._password,
            tail=places.confirmed,
            waits_forever=self._until is None,
        )
        self._fetcher.start()
        # A program that leaves its loop early may just drop the reader: the background task must end then.
        loop = asyncio.get_running_loop()
        self._dropped = finalize(self, _abandon, loop, self._fetcher)
        self._dropped.atexit = False

    async def close(self) -> None:
        """Stop reading ahead; `position` stays valid. A closed reader cannot be opened again."""
        self._closed = True
        self._entries, self._messages = iter(()), _NOTHING
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._fetcher is not None:
            self._dropped.detach()
            await self._fetcher.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _begin(self, ref: LogRef, places: Places) -> MessageId:
        """Where to begin. A cursor is taken over, or created where the range begins."""
        if self._cursor_name is None:
            return await places.start(self._wanted)
        cursors = self._logs.cursors
        taken = await cursors.take(ref, self._cursor_name, lambda: places.begin(self._wanted))
        try:
            await self._logs.read(ref)
        except LogNotFoundError:
            await cursors.forget(ref)  # created after its log was deleted
            raise
        self._held = HeldCursor(cursors, ref, taken, self._ledgers.environment)
        return self._held.value.position

    # ---- iteration

    def __aiter__(self) -> Self:
        self._refuse_gaps("iterate over items()")
        return self

    async def __anext__(self) -> Message:
        for message in self._messages:
            self._returned = message
            return message
        while (found := await self.next_item()) is not None:
            assert isinstance(found, MessageBatch), "gaps were refused"
            self._messages = iter(found)
            for message in self._messages:
                self._returned = message
                return message
        raise StopAsyncIteration

    async def poll(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None if none comes within `timeout_s` seconds, or at the end (`ended`).

        Nothing is lost at the timeout: the next call, or iteration, returns what has come. A timeout of 0 returns what
        is fetched already, or None; the reader goes on fetching in the background.

        Raises:
            ConfigurationError: `timeout_s` is not a number; a policy is `gap`: iterate over `items`.
            The errors of iterating.
        """
        self._refuse_gaps("iterate over items()")
        require_type("timeout_s", timeout_s, float, type(None))
        for message in self._messages:
            self._returned = message
            return message
        give_up_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        try:
            while (found := await self.next_item(give_up_at=give_up_at)) is not None:
                assert isinstance(found, MessageBatch), "gaps were refused"
                self._messages = iter(found)
                for message in self._messages:
                    self._returned = message
                    return message
        except NotYetError:
            pass
        return None

    async def batches(self) -> AsyncIterator[MessageBatch]:
        """Iterate over batches: the messages of one entry each, in columns. The fastest way to read many messages.

        Raises:
            ConfigurationError: a policy is `gap`: use `batch_items`.
            The errors of iterating.
        """
        self._refuse_gaps("iterate over batch_items()")
        async for item in self.batch_items():
            assert isinstance(item, MessageBatch)
            yield item

    async def items(self) -> AsyncIterator[Message | Gap]:
        """Iterate over messages and, where a policy is `gap`, gaps."""
        async for item in self.batch_items():
            if isinstance(item, Gap):
                yield item
                continue
            for message in item:
                self._returned = message
                yield message

    async def batch_items(self) -> AsyncIterator[MessageBatch | Gap]:
        """Iterate over batches and, where a policy is `gap`, gaps."""
        while (item := await self.next_item()) is not None:
            yield item

    async def next_item(self, *, give_up_at: float | None = None) -> MessageBatch | Gap | None:
        """The next batch or gap; None at the end. A cancelled call loses nothing.

        Raises:
            NotYetError: none came before the loop's time `give_up_at`.
            The errors of iterating.
        """
        if (rest := self._rest_of_batch()) is not None:
            return rest
        while True:
            for entry in self._entries:
                batch = self._decode(entry)
                if batch is not None:
                    return batch
            await (self.open() if give_up_at is None else self.open_by(give_up_at))
            assert self._fetcher is not None
            # The fetcher shares this thread: let it send its next request before decoding this answer.
            await asyncio.sleep(0)
            found = await self._fetcher.take(give_up_at)
            if isinstance(found, Gap):
                self._returned, self._position = None, found.resume_at
                return found
            if found is None:
                self._ended = not self._closed
                return None
            self._fetched, self._entries = found, iter(found.entries)

    async def next_items(
        self, count_max: int, *, give_up_at: float | None = None
    ) -> list[tuple[MessageBatch | Gap, MessageId]]:
        """Up to `count_max` items, each with the position after it; an empty list at the end.

        Waits only for the first. For callers to whom each call is expensive. A cancelled call loses nothing.

        Raises:
            NotYetError: none came before the loop's time `give_up_at`.
            The errors of iterating.
        """
        first = await self.next_item(give_up_at=give_up_at)
        if first is None:
            return []
        found: list[tuple[MessageBatch | Gap, MessageId]] = [(first, self._position)]
        while len(found) < count_max and (entry := next(self._entries, None)) is not None:
            try:
                batch = self._decode(entry)
            except EntryFormatError:
                break  # what came before it is returned first; the next call raises
            if batch is not None:
                found.append((batch, self._position))
        return found

    def _rest_of_batch(self) -> MessageBatch | None:
        """The part of a batch that is being returned message by message and was not returned yet."""
        batch, returned = self._batch, self._returned
        if batch is None or returned is None or returned.id == self._last:
            return None
        self._returned, self._messages = None, _NOTHING
        return batch.slice(returned.id.batch_index + 1, self._last.batch_index + 1)

    def _decode(self, entry: Entry) -> MessageBatch | None:
        """The wanted messages of the entry, or None; from now on they count as returned."""
        fetched = self._fetched
        assert fetched is not None
        try:
            batch = MessageBatch.decoded(fetched.ledger_id, entry.entry_id, entry.payload)
        except EntryFormatError as error:
            # The next call fails on the same entry again instead of skipping it.
            self._entries = chain((entry,), self._entries)
            raise EntryFormatError(
                f"entry {entry.entry_id} of ledger {fetched.ledger_id}, log {self._log}: {error}",
                ledger_id=fetched.ledger_id,
                entry_id=entry.entry_id,
            ) from error
        return self._clip(batch, fetched)

    def _clip(self, batch: MessageBatch, fetched: Fetched) -> MessageBatch | None:
        """Only what is between start and until; both may be inside an entry."""
        first = fetched.first_index if batch.entry_id == fetched.entries[0].entry_id else 0
        stop, behind = len(batch), MessageId(batch.ledger_id, batch.entry_id + 1, 0)
        if self._until is not None and self._until < behind:
            stop, behind = min(stop, self._until.batch_index), self._until
        self._returned, self._position = None, behind
        if first >= stop:
            return None
        self._last = MessageId(batch.ledger_id, batch.entry_id, stop - 1)
        self._batch = batch if first == 0 and stop == len(batch) else batch.slice(first, stop)
        return self._batch

    def _refuse_gaps(self, way_out: str) -> None:
        if OnMissing.GAP in (self._on_trimmed, self._on_data_loss):
            raise ConfigurationError(f"a reader with policy 'gap' also returns gaps: {way_out}")

    # ---- its cursor

    async def ack(
        self, upto: Message | MessageId | str | None = None, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Acknowledge everything up to this message, and it; without one, everything that was returned.

        On return the reader's cursor is durably behind it: a later reader with this cursor starts there. Cumulative:
        to acknowledge what was acknowledged before asks no store. Anything else is one change in the metadata store, so
        acknowledge now and then, not each message; calls that wait for one another are made by one change.
        `properties` replace those that the cursor has.

        Raises:
            CursorMovedError: a newer reader has taken the cursor over, or it was set: stop.
            CursorNotFoundError: the cursor was removed, perhaps with its log.
            ConfigurationError: the reader has no cursor, the message was not returned yet, or the properties are no
                texts, more than 64, or have more than 32 KiB together.
            MetadataUnavailableError: nothing was changed; acknowledge again.
            MetadataOutcomeUnknownError: it may have been acknowledged; acknowledge again.

        Source: docs/log-semantics.md#rule-35.
        """
        await self.ack_below(self.position, upto, properties)

    async def ack_below(
        self,
        position: MessageId,
        upto: Message | MessageId | str | None,
        properties: Mapping[str, str] | None,
    ) -> None:
        """The same for a consumer that has reached `position` only."""
        if self._held is None:
            raise ConfigurationError(
                f"the reader of log {self._log} has no cursor to move"
                + (": pass cursor=… when opening it" if self._cursor_name is None else " yet: open it first")
            )
        if upto is not None:
            found = upto.id if isinstance(upto, Message) else MessageId.of(upto)
            behind = found._replace(batch_index=found.batch_index + 1)
            if behind > position:
                raise ConfigurationError(
                    f"message {found} cannot be acknowledged: the reader has returned only what is before {position}"
                )
            position = behind
        await self._held.ack(position, properties)

    @property
    def cursor(self) -> Cursor | None:
        """The reader's cursor as last seen; None without one, or before the reader opens. Asks no store."""
        return None if self._held is None else self._held.value

    # ---- where it is

    @property
    def position(self) -> MessageId:
        """The next id to return. A reader started there continues without loss or repetition."""
        if self._returned is None or self._returned.id == self._last:
            return self._position
        return self._returned.id._replace(batch_index=self._returned.id.batch_index + 1)

    @property
    def at_tail(self) -> bool:
        """Whether everything known to be readable has been returned. Asks no bookie and no store."""
        if self._fetcher is None or not self._fetcher.at_tail:
            return False
        return length_hint(self._entries) == 0 and self.position == self._position

    @property
    def ended(self) -> bool:
        """Whether everything up to `until`, or to the end of a sealed log, has been returned."""
        return self._ended

    @property
    def lag(self) -> Lag:
        """Distance from the tail as far as known here. Asks no bookie and no store."""
        return self.lag_from(self.position)

    def lag_from(self, position: MessageId) -> Lag:
        """The same for a consumer that has reached `position` only."""
        if self._fetcher is None:
            return Lag(0, 0)
        return Lag(self._fetcher.entries_behind(position), self._fetcher.ledgers_ahead)

    @property
    def waits_for(self) -> str | None:
        """Why no message comes at the moment, as a sentence; None while there is something to return."""
        return None if self._fetcher is None else self._fetcher.waits_for


def _abandon(loop: asyncio.AbstractEventLoop, fetcher: Fetcher) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(fetcher.abandon)
