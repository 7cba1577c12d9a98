"""Reads a run of one ledger's entries. Never fences, and never returns less than was requested.

The next entries are fetched while the caller processes the current ones. A ledger or entry that existed at planning
and no longer does is data loss, whatever the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from dlog.arrow.entry_columns import EntryColumns, decode_columns
from dlog.errors import EntryFormatError
from dlog.format.entry import Envelope, decode_envelope
from dlog.model import MessageId
from dlog.read.tail import opener
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle
from spark_connector.errors import PartitionDataLossError
from spark_connector.extents.message_numbers import MessageNumbers, NotNumberedError, cut_of
from spark_connector.extents.partitions import Extent, cut_at, shares_of
from spark_connector.retrying import retrying

T = TypeVar("T")

FETCH_ENTRIES = 1000
FETCH_BYTES = 2 * 1024 * 1024
"""Two fetches are in memory at a time. Larger ones do not stay in the processor's caches until they are decoded: with
4 MiB a scan takes an eighth more processor time."""


class ExtentReader:
    """Reads extents of one cluster's ledgers. A read with its retries takes `timeout_ms` at most."""

    def __init__(self, ledgers: LedgerClient, timeout_ms: int, password: bytes = b"") -> None:
        self._open_ledger = opener(ledgers, password)
        self._timeout_ms = timeout_ms

    async def columns(self, extent: Extent) -> AsyncIterator[EntryColumns]:
        """The extent's messages, an entry at a time, in order."""
        async with self._opened(extent) as handle:
            async for entry in self._entries(handle, extent):
                try:
                    found = decode_columns(extent.ledger_id, entry.entry_id, entry.payload)
                except EntryFormatError as error:
                    raise _undecodable(extent, entry.entry_id, error) from error
                yield found.slice(*cut_of(extent, entry.entry_id, found.count))

    async def count(self, extent: Extent) -> int:
        """Number of messages in the extent, from the envelopes of some of its entries, or of all if need be."""
        _, total = await self._find(extent, ())
        return total

    async def quick_count(self, extent: Extent) -> int | None:
        """The same; None if all entries of an extent that is not small would have to be read."""
        async with self._opened(extent) as handle:
            try:
                return (await self._numbers(handle, extent).find(()))[1]
            except NotNumberedError:
                return (await self._scan(handle, extent, ()))[1] if is_small(extent) else None

    async def take(self, extent: Extent, limit: int) -> tuple[MessageId, int]:
        """The id after the first `limit` messages of the extent, or its end; and how many messages are before it."""
        ends, total = await self._find(extent, (limit,))
        return (ends[0], limit) if ends else (extent.end, total)

    async def split(self, extent: Extent, most: int) -> list[Extent]:
        """The extent, whose messages are counted, in parts of at most `most` messages."""
        assert extent.messages is not None, "its messages are counted"
        counts = shares_of(extent.messages, most)
        if not counts:
            return [extent]
        ids, _ = await self._find(extent, counts)
        return cut_at(extent, ids, counts)

    async def _find(self, extent: Extent, numbers: Sequence[int]) -> tuple[list[MessageId], int]:
        """The ids after the first N messages, for each N that the extent has; and how many it has.

        The latter only up to the last of the numbers, if the extent has as many.
        """
        async with self._opened(extent) as handle:
            if not is_small(extent):  # otherwise reading all of it takes one request
                with suppress(NotNumberedError):
                    return await self._numbers(handle, extent).find(numbers)
            return await self._scan(handle, extent, numbers)

    def _numbers(self, handle: ReadHandle, extent: Extent) -> MessageNumbers:
        async def envelope(entry_id: int) -> Envelope:
            [entry] = await self._retrying(partial(handle.read, entry_id, entry_id), extent)
            return _envelope(extent, entry)

        return MessageNumbers(extent, envelope)

    async def _scan(
        self, handle: ReadHandle, extent: Extent, numbers: Sequence[int]
    ) -> tuple[list[MessageId], int]:
        found: list[MessageId] = []
        total = 0
        async with aclosing(self._entries(handle, extent)) as entries:
            async for entry in entries:
                envelope = _envelope(extent, entry)
                skipped, end = cut_of(extent, entry.entry_id, envelope.count)
                total += end - skipped
                while len(found) < len(numbers) and numbers[len(found)] <= total:
                    index = end - (total - numbers[len(found)])
                    found.append(_id_at(extent, entry.entry_id, index, envelope.count))
                if numbers and len(found) == len(numbers):
                    break
        return found, total

    async def last_within(self, extent: Extent, byte_limit: int) -> tuple[int, int]:
        """The last entry up to which the extent's entries have no more payload than this, and how much they have.

        One before the first, and 0, if the first one has more. Bisects, since the header of an entry says how many
        bytes its ledger has up to it.
        """
        async with self._opened(extent) as handle:
            before = await self._bytes_before(handle, extent)
            low, size = extent.first_entry - 1, 0
            high = extent.last_entry
            while low < high:
                middle = (low + high + 1) // 2
                found = await self._bytes_through(handle, middle, extent) - before
                if found <= byte_limit:
                    low, size = middle, found
                else:
                    high = middle - 1
            return low, size

    async def _bytes_before(self, handle: ReadHandle, extent: Extent) -> int:
        first = extent.first_entry
        return await self._bytes_through(handle, first - 1, extent) if first else 0

    async def _bytes_through(self, handle: ReadHandle, entry_id: int, extent: Extent) -> int:
        [entry] = await self._retrying(partial(handle.read, entry_id, entry_id), extent)
        return entry.length

    async def first_entry_bytes(self, extent: Extent) -> int:
        """Payload bytes of the extent's first entry."""
        async with self._opened(extent) as handle:
            before = await self._bytes_before(handle, extent)
            return await self._bytes_through(handle, extent.first_entry, extent) - before

    async def bytes_of(self, extent: Extent) -> int:
        """Payload bytes of the extent's entries. `byte_count` of one that is cut is an estimate."""
        async with self._opened(extent) as handle:
            before = await self._bytes_before(handle, extent)
            return await self._bytes_through(handle, extent.last_entry, extent) - before

    async def _entries(self, handle: ReadHandle, extent: Extent) -> AsyncGenerator[Entry, None]:
        async with aclosing(self._fetched(handle, extent)) as fetched:
            async for entries in fetched:
                for entry in entries:
                    yield entry

    @asynccontextmanager
    async def _opened(self, extent: Extent) -> AsyncIterator[ReadHandle]:
        try:
            handle = await self._retrying(partial(self._open_ledger, LedgerId(extent.ledger_id)), extent)
            try:
                handle.confirm(extent.last_entry)  # planning may have asked other bookies, which know more
                _check_reach(handle, extent)
                yield handle
            finally:
                await handle.close()
        except (LedgerNotFoundError, EntryNotFoundError) as error:
            raise PartitionDataLossError(
                f"messages {extent.start} to {extent.end} of log {extent.log} have disappeared since the query was "
                f"planned: {error}",
                start=extent.start,
                end=extent.end,
            ) from error

    async def _fetched(self, handle: ReadHandle, extent: Extent) -> AsyncGenerator[list[Entry], None]:
        ahead = self._fetch(handle, extent.first_entry, extent)
        try:
            while True:
                entries = await ahead
                following = entries[-1].entry_id + 1
                if following > extent.last_entry:
                    yield entries
                    return
                ahead = self._fetch(handle, following, extent)
                yield entries
        finally:
            ahead.cancel()

    def _fetch(self, handle: ReadHandle, first: int, extent: Extent) -> asyncio.Task[list[Entry]]:
        wanted = min(FETCH_ENTRIES, extent.last_entry - first + 1)
        read = partial(handle.read_batch, first, max_entries=wanted, max_bytes=FETCH_BYTES)
        return asyncio.ensure_future(self._retrying(read, extent))

    async def _retrying(self, read: Callable[[], Awaitable[T]], extent: Extent) -> T:
        return await retrying(read, self._timeout_ms, f"ledger {extent.ledger_id}")


def is_small(extent: Extent) -> bool:
    """Whether one fetch brings all of it, as far as is known."""
    return extent.entries <= FETCH_ENTRIES and extent.byte_count <= FETCH_BYTES


def _envelope(extent: Extent, entry: Entry) -> Envelope:
    try:
        return decode_envelope(entry.payload)[0]
    except EntryFormatError as error:
        raise _undecodable(extent, entry.entry_id, error) from error


def _undecodable(extent: Extent, entry_id: int, error: EntryFormatError) -> PartitionDataLossError:
    return PartitionDataLossError(
        f"entry {entry_id} of ledger {extent.ledger_id} of log {extent.log} cannot be decoded: {error}",
        start=extent.start,
        end=extent.end,
    )


def _id_at(extent: Extent, entry_id: int, index: int, count: int) -> MessageId:
    """The id after `index` of the `count` messages of an entry."""
    return MessageId(extent.ledger_id, *((entry_id, index) if index < count else (entry_id + 1, 0)))


def _check_reach(handle: ReadHandle, extent: Extent) -> None:
    if handle.last_readable < extent.last_entry:
        raise PartitionDataLossError(
            f"ledger {extent.ledger_id} ends at entry {handle.last_readable}, but the query was planned up to entry "
            f"{extent.last_entry}",
            start=extent.start,
            end=extent.end,
        )
