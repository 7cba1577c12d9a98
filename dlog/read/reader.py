"""The reader of a log.

A background task fetches raw entries (dlog/read/fetcher.py); they are decoded here, one at a time, on demand. What is
fetched ahead therefore costs only its bytes, and the next fetch is under way while an entry is decoded. A reader
fences nothing and changes nothing.

Invariant (docs/log-semantics.md#rule-26 to #rule-30): ids increase; whatever is left out is reported as a gap, unless
the caller asked to skip it. What is fetched ahead is bounded (docs/log-semantics.md#rule-32).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import finalize

from dlog.backoff import until_available
from dlog.core.tailing import Gap, OnMissing, Tailing, require_readable
from dlog.errors import EntryFormatError, LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, Cursor, LogName, Message, MessageId, check_log_name, next_id, position_of
from dlog.read.backlog import Lag, lag_behind
from dlog.read.batch import MessageBatch, decode_batch, memory_bytes
from dlog.read.config import ReaderConfig
from dlog.read.fetcher import Fetched, Fetcher, NotYetError, Taken, undecodable
from dlog.read.held_cursor import HeldCursor
from dlog.read.places import Places
from dlog.read.range import Place, ReadRange
from dlog.read.slow_polls import SlowPolls
from dlog.read_ahead_budget import ReadAheadBudget
from ledger.arguments import require_choice, require_type
from ledger.client import LedgerClient
from ledger.errors import ConfigurationError, UnavailableError
from ledger.extras import require
from ledger.reading.bookie_reads import Entry
from ledger.tasks import start_task

if TYPE_CHECKING:
    import pyarrow as pa

    from dlog.arrow.record_batches import RecordBatches

_ITEMS_BYTES_MAX = 1024 * 1024
"""Decoded in one call of `next_items`: next to that a call costs little, and entries may be well compressed."""
_NOTHING: Iterator[Message] = iter(())
_new: Any = tuple.__new__
"""What MessageId's constructor calls after three Python frames."""


@dataclass(slots=True, eq=False)
class _Opening:
    task: asyncio.Future[None]
    wanted_by: int = 0
    """Calls that wait for it, and polls whose time ended first."""


class Reader:
    """Returns messages in order, from one position on. One consumer at a time; a new loop continues after the last.

        async with client.reader("orders", start="earliest", until="latest") as reader:
            async for message in reader: ...

    It opens at the first message, or at `async with` (then `"latest"` means the tail as of now). Iteration ends at
    `until`, or at the end of a sealed log; otherwise it waits for more messages.

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
        ConfigurationError: the reader is closed, or it may return gaps and is not iterated by `items` or
            `batch_items`. Without `until`, iteration that is waiting when the reader is closed ends without an error.

    Source: docs/log-semantics.md#rule-26 to #rule-30.
    """

    def __init__(
        self,
        logs: LogMetadataStore,
        ledgers: LedgerClient,
        log: LogName,
        wanted: ReadRange,
        slow_polls: SlowPolls,
        read_ahead: ReadAheadBudget,
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
        self._read_ahead = read_ahead
        self._cursor_name = None if cursor is None else check_log_name(cursor)
        self._held: HeldCursor | None = None
        require_type("config", config, ReaderConfig, type(None))
        self._config = config or ReaderConfig()
        self._on_trimmed = require_choice("on_trimmed", on_trimmed, tuple(OnMissing))
        self._on_data_loss = require_choice("on_data_loss", on_data_loss, (OnMissing.FAIL, OnMissing.GAP))
        self._fetcher: Fetcher | None = None
        self._until: MessageId | None = None
        self._position = (
            wanted.start if wanted.last is None and isinstance(wanted.start, MessageId) else EARLIEST_ID
        )
        self._last = EARLIEST_ID
        self._returned: Message | None = None
        self._unreturned: MessageId | None = None
        """Where what a failed `to_arrow` has read begins."""
        self._ref: LogRef | None = None
        """Once it is open."""
        self._fetched: Fetched | None = None
        self._entries: Iterator[Entry] = iter(())
        self._put_back: deque[Taken] = deque()
        """Comes before what is fetched next; empty while `_entries` is not."""
        self._messages = _NOTHING
        self._batch: MessageBatch | None = None
        self._body_bytes = 0
        """Of the messages of the entry that was decoded last."""
        self._closed = False
        self._ended = False
        self._opening: _Opening | None = None
        """A task of its own, so that `close` can end it."""
        self._opening_outage: UnavailableError | None = None

    def __repr__(self) -> str:
        return self.repr_at(self.position)

    def repr_at(self, position: MessageId) -> str:
        """The same for a consumer that has got no further than `position`."""
        return f"<Reader {self._log} at {position}{' closed' if self._closed else ''}>"

    # ---- life

    async def open(self) -> None:
        """Find the log and determine where the reader begins and ends. A second call does nothing.

        Raises:
            LogNotFoundError: no such log, or it is being deleted.
            ConfigurationError: the reader is closed.
            MetadataUnavailableError: the metadata store could not be reached for `unavailable_timeout_s`.
            ReadError: for a range that names the tail, a time or the last messages: too few bookies responded to find
                them for `unavailable_timeout_s`.
            DataLossError: for such a range: what has to be read for it is lost.
        """
        await self.open_by(None)

    async def open_by(self, give_up_at: float | None) -> None:
        """As `open`. NotYetError if it takes longer: then it goes on, and the next call waits for the rest.

        It also goes on if another call still waits for it. Otherwise cancelling this one ends it.
        """
        self._refuse_if_closed()
        if self._fetcher is None and self._opening is None:
            self._opening = _Opening(start_task(self._open()))
            # The next call raises its error; there may be none.
            self._opening.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        if (opening := self._opening) is None:
            return
        now = asyncio.get_running_loop().time()
        opening.wanted_by += 1
        try:
            await asyncio.wait(
                (opening.task,), timeout=None if give_up_at is None else max(0, give_up_at - now)
            )
        except asyncio.CancelledError:
            if give_up_at is None:
                await self._give_up(opening)
            raise
        if not opening.task.done():
            raise NotYetError
        self._refuse_if_closed()
        self._forget(opening)
        opening.task.result()

    async def _give_up(self, opening: _Opening) -> None:
        """A call does not wait for it any more; on return it has ended unless it is wanted by another one."""
        opening.wanted_by -= 1
        if not opening.wanted_by:
            self._forget(opening)  # a call from now on begins another one
            opening.task.cancel()
            await asyncio.wait((opening.task,))

    def _forget(self, opening: _Opening) -> None:
        if self._opening is opening:
            self._opening = None

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigurationError(f"the reader of log {self._log} is closed: open another one")

    async def _open(self) -> None:
        self._ledgers.check_loop()
        self._held = None
        self._fetcher = await until_available(
            self._new_fetcher,
            self._ledgers.environment,
            self._config.unavailable_timeout_s,
            self._waits_to_open,
        )
        self._fetcher.start()
        # A program that leaves its loop early may just drop the reader: the background task must end then.
        self._dropped = finalize(self, _abandon, asyncio.get_running_loop(), self._fetcher)
        self._dropped.atexit = False

    def _waits_to_open(self, outage: UnavailableError) -> None:
        self._opening_outage = outage

    async def _new_fetcher(self) -> Fetcher:
        """Find the log and both ends of the range; fetch nothing yet."""
        ref = self._ref = await self._logs.find(self._log)
        accept_loss = self._on_data_loss is OnMissing.GAP
        places = Places(self._logs, ref, self._ledgers, self._password, accept_loss=accept_loss)
        self._position = await self._begin(ref, places)
        if self._wanted.until is not None:
            self._until = await places.find(self._wanted.until, is_end=True)
        if self._until is not None and self._position >= self._until:
            await places.record()  # nothing else of this range shows whether the log is being deleted
        machine = Tailing(
            str(self._log),
            position=self._position,
            until=self._until,
            from_earliest=self._wanted.start is Place.EARLIEST
            and self._wanted.last is None
            and self._held is None,
            on_trimmed=self._on_trimmed,
            on_data_loss=self._on_data_loss,
            cursor=self._cursor_name,
        )
        return Fetcher(
            machine,
            self._logs,
            ref,
            self._ledgers,
            self._config,
            self._slow_polls,
            self._read_ahead,
            password=self._password,
            tail=places.confirmed,
            waits_forever=self._until is None,
        )

    async def close(self) -> None:
        """Stop reading ahead; `position` stays valid. A closed reader cannot be opened again."""
        self._closed = True
        self._entries, self._messages = iter(()), _NOTHING
        self._put_back.clear()
        if self._opening is not None:
            self._opening.task.cancel()
            await asyncio.gather(self._opening.task, return_exceptions=True)
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
        """Where to begin. A cursor is taken over, or created where the range begins.

        Once in an opening, however many attempts it has: a reader that opens later may have taken it over since.
        """
        if self._cursor_name is None:
            return await places.start(self._wanted)
        cursors, held = self._logs.cursors, self._held
        if held is None or held.ref != ref:
            taken = await cursors.take(ref, self._cursor_name, lambda: places.begin(self._wanted))
            held = self._held = HeldCursor(cursors, ref, taken, self._ledgers.environment)
        try:
            record = (await self._logs.read(ref)).value
        except LogNotFoundError:
            self._held = None
            await cursors.forget(ref)  # created after its log was deleted
            raise
        require_readable(str(ref), record)
        return held.value.position

    # ---- iteration

    def __aiter__(self) -> Self:
        self.refuse_gaps("iterate over items()")
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
            ConfigurationError: `timeout_s` is not a number of 0 or more; a policy is `gap`: iterate over `items`.
            The errors of iterating.
        """
        self.refuse_gaps("iterate over items()")
        require_poll_s(timeout_s)
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
        self.refuse_gaps("iterate over batch_items()")
        while (item := await self.next_item()) is not None:
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
                if self._returned is not message:
                    break  # another call went on from here

    async def batch_items(self) -> AsyncIterator[MessageBatch | Gap]:
        """Iterate over batches and, where a policy is `gap`, gaps."""
        while (item := await self.next_item()) is not None:
            yield item

    async def arrow_batches(
        self, columns: Sequence[str] | None = None, *, batch_rows: int = 8192
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over Arrow record batches of `batch_rows` rows, each with 32 MiB of data at most, plus one entry.

        `columns` chooses columns and their order; without it there are all except `headers` (docs/arrow.md). The last
        batch has fewer rows. Without `until`, so has one whose first row has waited for 0.1 s. What was returned as
        rows counts as returned: iteration of any kind continues after it.

        Raises:
            MissingExtraError: pyarrow is not installed.
            ConfigurationError: a policy is `gap`: use `batch_items`; a column is unknown; `batch_rows` is below 1.
            The errors of iterating.
        """
        batches = self.record_batches("arrow_batches", columns, batch_rows)
        while (batch := await batches.next()) is not None:
            yield batch

    async def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Everything from `position` up to `until` as one Arrow table. All of it must fit into memory.

        `columns` is that of `arrow_batches`. What a call that fails or is cancelled has read is not returned again, and
        `ack` refuses to acknowledge it: to repeat it, open another reader.

        Raises:
            MissingExtraError: pyarrow is not installed.
            ConfigurationError: the reader has no `until`; a policy is `gap`: use `batch_items`; a column is unknown.
            The errors of iterating.
        """
        if self._wanted.until is None:
            raise ConfigurationError(
                f"the reader of log {self._log} has no end, a table has one: open it with until='latest', or use "
                "arrow_batches"
            )
        batches = self.record_batches("to_arrow", columns)
        await self.open()
        before = self.position
        try:
            return await batches.table()
        except BaseException:
            self.note_unreturned(before)
            raise

    def note_unreturned(self, before: MessageId) -> None:
        """What was read since it was at `before` is not returned, and never acknowledged."""
        if self.position > before and self._unreturned is None:
            self._unreturned = before

    def record_batches(
        self, what: str, columns: Sequence[str] | None, batch_rows: int = 65_536
    ) -> RecordBatches:
        """What makes the batches of `what`, a method. Raises what that raises before it reads."""
        require(what, "arrow", "numpy", "pyarrow")
        from dlog.arrow.record_batches import RecordBatches

        self.refuse_gaps("iterate over batch_items()")
        return RecordBatches(self, columns, batch_rows)

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
            found, after = await self._take(give_up_at)
            if isinstance(found, Fetched):
                self._fetched, self._entries = found, iter(found.entries)
                continue
            if found is None:
                return None
            self._returned, self._position = None, after
            if isinstance(found, MessageBatch):
                self._batch, self._last = found, found.last_id
            return found

    async def _take(self, give_up_at: float | None) -> Taken | tuple[None, MessageId]:
        """What comes next, as it was fetched or put back, and the position after it; None at the end."""
        await self.open_by(give_up_at)
        assert self._fetcher is not None
        if self._put_back:
            return self._put_back.popleft()
        if not self._fetcher.is_ahead:
            # It shares this thread: let it send its next request before this answer is decoded.
            await asyncio.sleep(0)
        found = await self._fetcher.take(give_up_at)
        if found is None:
            if self._until is not None:
                self._refuse_if_closed()  # what was returned is not all that was asked for
            self._ended = not self._closed
            return None, self._position
        return found, found.resume_at if isinstance(found, Gap) else self._after(found)

    def _after(self, fetched: Fetched) -> MessageId:
        """The position after these entries."""
        behind = MessageId(fetched.ledger_id, fetched.entries[-1].entry_id + 1, 0)
        return behind if self._until is None else min(behind, self._until)

    async def next_items(
        self, count_max: int, *, give_up_at: float | None = None
    ) -> list[tuple[MessageBatch | Gap, MessageId]]:
        """Up to `count_max` items, each with the position after it; an empty list at the end.

        Waits only for the first. Fewer items if their messages have more than _ITEMS_BYTES_MAX together. For callers
        to whom each call is expensive. A cancelled call loses nothing.

        Raises:
            NotYetError: none came before the loop's time `give_up_at`.
            The errors of iterating.
        """
        self._body_bytes = 0
        first = await self.next_item(give_up_at=give_up_at)
        if first is None:
            return []
        body_bytes = self._body_bytes
        found: list[tuple[MessageBatch | Gap, MessageId]] = [(first, self._position)]
        while (
            len(found) < count_max
            and body_bytes < _ITEMS_BYTES_MAX
            and (entry := next(self._entries, None)) is not None
        ):
            try:
                batch = self._decode(entry)
            except Exception:  # noqa: BLE001 - the next call raises it again
                break  # what came before it is returned first
            body_bytes += self._body_bytes
            if batch is not None:
                found.append((batch, self._position))
        return found

    async def next_fetched(self, *, give_up_at: float | None = None) -> Taken | None:
        """What comes next, not decoded, and the position after it; None at the end. A cancelled call loses nothing.

        Its entries may have messages at or after `until`. It counts as returned, unless `put_back` gets it.

        Raises:
            NotYetError: none came before the loop's time `give_up_at`.
            The errors of iterating, except those of decoding.
        """
        if (rest := self._rest_of_batch()) is not None:
            return rest, self._position
        found, after = self._undecoded() or await self._take(give_up_at)
        if found is None:
            return None
        self._returned, self._messages, self._batch, self._position = None, _NOTHING, None, after
        return found, after

    def _undecoded(self) -> Taken | None:
        """The entries that were fetched last, as far as they are not decoded; they are no longer here then."""
        entries, self._entries = list(self._entries), iter(())
        if not entries:
            return None
        assert self._fetched is not None
        first_index = self._fetched.first_index if entries[0] is self._fetched.entries[0] else 0
        found = Fetched(self._fetched.ledger_id, first_index, entries, 0, self._fetched.decoded)
        return found, self._after(found)

    def put_back(
        self, items: Sequence[Taken], position: MessageId, *, in_place_of_first: bool = False
    ) -> None:
        """Take back what `next_fetched` returned last, or the rest of it, which begins at `position`.

        With `in_place_of_first` such a rest was put back before, and is now among the items.
        """
        if self._closed:
            return
        if (behind := self._undecoded()) is not None:
            self._put_back.appendleft(behind)
        if in_place_of_first:
            self._put_back.popleft()
        self._put_back.extendleft(reversed(items))
        self._returned, self._messages, self._batch, self._position = None, _NOTHING, None, position
        self._ended = self._ended and not self._put_back

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
        decoded = fetched.decoded
        if decoded is not None and (known := decoded.get(entry.entry_id)) is not None:
            batch, self._body_bytes = known
            return self._clip(batch, fetched)
        try:
            batch, self._body_bytes = decode_batch(fetched.ledger_id, entry.entry_id, entry.payload)
        except BaseException as error:
            # The next call fails on the same entry again instead of skipping it. A list says how much is left.
            self._entries = iter([entry, *self._entries])
            if not isinstance(error, EntryFormatError):
                raise
            raise undecodable(error, self._log, fetched.ledger_id, entry.entry_id) from error
        if decoded is not None:
            made = batch, self._body_bytes
            decoded.keep(entry.entry_id, made, memory_bytes(batch, self._body_bytes))
        return self._clip(batch, fetched)

    def _clip(self, batch: MessageBatch, fetched: Fetched) -> MessageBatch | None:
        """Only what is between start and until; both may be inside an entry."""
        ledger_id, entry_id, count = batch.ledger_id, batch.entry_id, len(batch.payloads)
        first = fetched.first_index if entry_id == fetched.entries[0].entry_id else 0
        stop, behind = count, _new(MessageId, (ledger_id, entry_id + 1, 0))
        if self._until is not None and self._until < behind:
            stop, behind = min(count, self._until.batch_index), self._until
        self._returned, self._position = None, behind
        if first >= stop:
            return None
        self._last = _new(MessageId, (ledger_id, entry_id, stop - 1))
        self._batch = batch if first == 0 and stop == count else batch.slice(first, stop)
        return self._batch

    def refuse_gaps(self, way_out: str) -> None:
        """ConfigurationError if a policy is `gap`; `way_out` is what to call instead."""
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
            ConfigurationError: the reader has no cursor, the message was not returned yet, or a `to_arrow` that failed
                has read it or one before it; or the properties are no texts, more than 64, or have more than 32 KiB
                together.
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
            found = position_of(upto.id if isinstance(upto, Message) else upto)
            behind = next_id(found)
            if behind > position:
                raise ConfigurationError(
                    f"message {found} cannot be acknowledged: the reader has returned only what is before {position}"
                )
            position = behind
        if self._unreturned is not None and position > self._unreturned:
            raise ConfigurationError(
                f"messages from {self._unreturned} on cannot be acknowledged: a to_arrow that failed has read them and "
                "returned none; open another reader, which begins at the cursor"
            )
        await self._held.ack(position, properties)

    @property
    def cursor(self) -> Cursor | None:
        """The reader's cursor as last seen; None without one, or before the reader opens. Asks no store."""
        return None if self._held is None else self._held.value

    # ---- where it is

    @property
    def position(self) -> MessageId:
        """The next id to return. A reader started there continues without loss or repetition.

        Until it is open: the id it was given to start at, or 0:0:0 if it was given another place.
        """
        if self._returned is None or self._returned.id == self._last:
            return self._position
        return self._returned.id._replace(batch_index=self._returned.id.batch_index + 1)

    @property
    def log(self) -> LogName:
        """The log that it reads."""
        return self._log

    @property
    def until(self) -> MessageId | None:
        """Where it ends, once it is open; None if it does not."""
        return self._until

    @property
    def at_tail(self) -> bool:
        """Whether everything known to be readable has been returned. Asks no bookie and no store."""
        if self._fetcher is None or not self._fetcher.at_tail:
            return False
        return not length_hint(self._entries) and not self._put_back and self.position == self._position

    @property
    def ended(self) -> bool:
        """Whether everything up to `until`, or to the end of a sealed log, has been returned."""
        return self._ended

    @property
    def lag(self) -> Lag:
        """Distance from the tail as far as known here: what was fetched, what the reader's ledger is known to have, and
        what the list says of sealed ledgers after it. Messages and bytes are None unless the reader is at the tail:
        `measure_lag` counts them. Asks no bookie and no store.
        """
        return self.lag_from(self.position)

    def lag_from(self, position: MessageId, taken: Iterable[Taken] = ()) -> Lag:
        """The same for a consumer that has reached `position` only, though it has `taken` what comes next."""
        if self._fetcher is None:
            return Lag(0, 0)
        here = (self._fetched, self._batch, *(item for item, _ in chain(taken, self._put_back)))
        entries, ledgers = self._fetcher.known_from(position, here)
        return Lag(entries, ledgers, 0, 0) if not entries and self._fetcher.at_tail else Lag(entries, ledgers)

    async def measure_lag(self) -> Lag:
        """What is readable from `position` on up to the tail, whatever `until` is, also in messages and bytes.

        Every append that had succeeded before the call counts. Reads the log's record and up to two entries.

        Raises:
            ReadError, DataLossError: the tail cannot be determined.
            HistoryPageError: a page of the ledger list from the position on is lost, whatever `on_data_loss` is.
            LogNotFoundError: there is no such log any more.
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        return await self.measure_lag_from(self.position)

    async def measure_lag_from(self, position: MessageId) -> Lag:
        """The same for a consumer that has reached `position` only."""
        await self.open()
        assert self._ref is not None
        return await lag_behind(position, self._logs, self._ref, self._ledgers, self._password)

    @property
    def waits_for(self) -> str | None:
        """Why no message comes at the moment, as a sentence; None while there is something to return."""
        if self._put_back:
            return None
        if self._fetcher is None:
            return None if self._opening_outage is None else str(self._opening_outage)
        return self._fetcher.waits_for

    @property
    def outage(self) -> UnavailableError | None:
        """The latest error of bookies or the metadata store because of which no message comes, while it is tried again.

        None while they respond.
        """
        if self._put_back:
            return None
        return self._opening_outage if self._fetcher is None else self._fetcher.outage


def require_poll_s(timeout_s: object) -> None:
    """ConfigurationError: not the `timeout_s` of a `poll`."""
    require_type("timeout_s", timeout_s, float, type(None))
    if isinstance(timeout_s, int | float) and timeout_s < 0:
        raise ConfigurationError(
            f"timeout_s must be 0 or more seconds, got {timeout_s}: 0 returns what is fetched already, None waits"
        )


def _abandon(loop: asyncio.AbstractEventLoop, fetcher: Fetcher) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(fetcher.abandon)
