"""Record batches of what a reader fetches.

Invariant: a call takes from the reader exactly the messages of the batch that it returns, and none if it raises or is
cancelled. So the reader's position is always behind the last row that was returned, and nothing is kept here that
could be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from dlog.arrow.columns import ArrowColumns
from dlog.arrow.entry_columns import EntryColumns, columns_of_batch, decode_columns
from dlog.arrow.read_schema import read_schema
from dlog.errors import EntryFormatError
from dlog.model import LogName, MessageId
from dlog.read.batch import MessageBatch
from dlog.read.fetcher import Fetched, NotYetError, Taken, undecodable
from ledger.arguments import require_type
from ledger.errors import ConfigurationError, LogStoreError

ROWS_MAX = 10_000_000
LINGER_S = 0.1
"""How long the first row of a batch waits for more if the reader has no end."""


class FetchedSource(Protocol):
    """What this needs of a reader."""

    @property
    def log(self) -> LogName: ...

    @property
    def position(self) -> MessageId: ...

    @property
    def until(self) -> MessageId | None: ...

    async def open(self) -> None: ...

    async def next_fetched(self, *, give_up_at: float | None = None) -> Taken | None: ...

    def put_back(
        self, items: Sequence[Taken], position: MessageId, *, in_place_of_first: bool = False
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A record batch, and what it takes to undo the call that made it."""

    batch: pa.RecordBatch
    before: MessageId
    """The reader's position before it."""
    after: MessageId
    taken: Sequence[Taken]
    has_rest: bool
    """Whether the last of `taken` was returned in part: the reader has the rest."""


class RecordBatches:
    """Makes record batches of the messages of one reader, which has no policy `gap`."""

    def __init__(self, reader: FetchedSource, columns: Sequence[str] | None, batch_rows: int) -> None:
        self.schema = read_schema(columns)
        require_type("batch_rows", batch_rows, int)
        if not 1 <= batch_rows <= ROWS_MAX:
            raise ConfigurationError(f"batch_rows must be 1 to {ROWS_MAX}, got {batch_rows}")
        self.batch_rows = batch_rows
        self.request = (self.schema, batch_rows)
        """What one thread's batches have in common with those that another may take instead."""
        self._reader = reader
        self._decoded: EntryColumns | None = None
        """The last entry: if a batch ends inside it, the next one begins there."""
        self._failure: LogStoreError | None = None
        """Of the reader, after rows that were returned first: an outage, which it does not raise again."""

    async def next(self) -> pa.RecordBatch | None:
        """The next one; None at the end. A cancelled call loses nothing.

        It is full unless the log ends, or it would get too large, or, without `until`, its first row has waited for
        LINGER_S, or what comes next raises.

        Raises:
            The errors of iterating.
        """
        made = await self.make()
        return None if made is None else made.batch

    async def table(self) -> pa.Table:
        """All of them."""
        batches = []
        while (batch := await self.next()) is not None:
            batches.append(batch)
        return pa.Table.from_batches(batches, self.schema)

    async def make(self) -> Made | None:
        """As `next`. Undone by `put_back(taken, before, in_place_of_first=has_rest)` of the reader."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        reader = self._reader
        rows = ArrowColumns(self.schema, reader.log.name, self.batch_rows)
        taken: list[Taken] = []
        await reader.open()
        before = reader.position
        try:
            rest = await self._collect(rows, taken)
            if rows.is_empty:
                return None
            batch = rows.take()
        except BaseException:
            reader.put_back(taken, before)
            raise
        if rest is not None:
            reader.put_back([rest[0]], rest[1])
        return Made(batch, before, reader.position, taken, rest is not None)

    async def _collect(self, rows: ArrowColumns, taken: list[Taken]) -> tuple[Taken, MessageId] | None:
        """Take what fits; what is left of the last item, and the position where that begins."""
        give_up_at: float | None = None
        while not rows.is_full:
            try:
                found = await self._reader.next_fetched(give_up_at=give_up_at)
            except NotYetError:
                return None
            except LogStoreError as error:
                if rows.is_empty:
                    raise
                self._failure = error  # the next call raises it
                return None
            if found is None:
                return None
            taken.append(found)
            if (rest := self._put(rows, found)) is not None:
                return rest
            if give_up_at is None and self._reader.until is None and not rows.is_empty:
                give_up_at = asyncio.get_running_loop().time() + LINGER_S
        return None

    def _put(self, rows: ArrowColumns, found: Taken) -> tuple[Taken, MessageId] | None:
        item, after = found
        if isinstance(item, MessageBatch):
            count = rows.put(columns_of_batch(item))
            if count == len(item):
                return None
            rest = item.slice(item.first_index + count, item.first_index + len(item))
            return (rest, after), rest.first_id
        assert isinstance(item, Fetched), "gaps were refused"
        left = self._put_entries(rows, item)
        if left is None:
            return None
        number, index = left
        part = replace(item, first_index=index, entries=item.entries[number:], decoded=None)
        return (part, after), MessageId(item.ledger_id, part.entries[0].entry_id, index)

    def _put_entries(self, rows: ArrowColumns, fetched: Fetched) -> tuple[int, int] | None:
        """Which entry comes next, as an index, and which of its messages, if there is something left."""
        until, first_index = self._reader.until, fetched.first_index
        for number, entry in enumerate(fetched.entries):
            if rows.is_full:
                return number, 0
            try:
                found = self._entry(fetched.ledger_id, entry.entry_id, entry.payload)
            except Exception as error:
                if not rows.is_empty:
                    return number, first_index  # the next call raises it
                if not isinstance(error, EntryFormatError):
                    raise
                raise undecodable(error, self._reader.log, fetched.ledger_id, entry.entry_id) from error
            stop = found.count
            if until is not None and until.ledger_id == found.ledger_id and until.entry_id == found.entry_id:
                stop = min(stop, until.batch_index)
            if first_index < stop:
                taken = rows.put(found.slice(first_index, stop))
                if first_index + taken < stop:
                    return number, first_index + taken
            first_index = 0
        return None

    def _entry(self, ledger_id: int, entry_id: int, payload: bytes | bytearray | memoryview) -> EntryColumns:
        known = self._decoded
        if known is None or (known.ledger_id, known.entry_id) != (ledger_id, entry_id):
            known = self._decoded = decode_columns(ledger_id, entry_id, payload)
        return known
