"""Reads a run of one ledger's entries. Never fences, and never returns less than was requested.

The next entries are fetched while the caller processes the current ones. A ledger or entry that existed at planning
and no longer does is data loss, whatever the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from dlog.format.entry import decode_envelope
from dlog.model import MessageId
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle
from spark_connector.entry_columns import EntryColumns, decode_columns
from spark_connector.errors import PartitionDataLossError
from spark_connector.partitions import Extent
from spark_connector.retrying import retrying

T = TypeVar("T")

FETCH_ENTRIES = 1000
FETCH_BYTES = 4 * 1024 * 1024
"""Two fetches are in memory at a time, so a task needs some 8 MiB in addition to its rows."""


class ExtentReader:
    """Reads extents of one cluster's ledgers. A read with its retries takes `timeout_ms` at most."""

    def __init__(self, ledgers: LedgerClient, timeout_ms: int) -> None:
        self._ledgers = ledgers
        self._timeout_ms = timeout_ms

    async def columns(self, extent: Extent) -> AsyncIterator[EntryColumns]:
        """The extent's messages, an entry at a time, in order."""
        async for entry in self._entries(extent):
            found = decode_columns(extent.ledger_id, entry.entry_id, entry.payload)
            yield found.slice(*_cut(extent, entry.entry_id, found.count))

    async def count(self, extent: Extent) -> int:
        """Number of messages in the extent, from the envelopes of its entries."""
        total = 0
        async for entry in self._entries(extent):
            envelope, _ = decode_envelope(entry.payload)
            skipped, limit = _cut(extent, entry.entry_id, envelope.count)
            total += limit - skipped
        return total

    async def take(self, extent: Extent, limit: int) -> tuple[MessageId, int]:
        """The id after the first `limit` messages of the extent, or its end; and how many messages are before it."""
        total = 0
        async for entry in self._entries(extent):
            envelope, _ = decode_envelope(entry.payload)
            skipped, end = _cut(extent, entry.entry_id, envelope.count)
            total += end - skipped
            if total >= limit:
                index = end - (total - limit)
                if index < envelope.count:
                    return MessageId(extent.ledger_id, entry.entry_id, index), limit
                return MessageId(extent.ledger_id, entry.entry_id + 1, 0), limit
        return extent.end, total

    async def last_within(self, extent: Extent, byte_limit: int) -> tuple[int, int]:
        """The last entry up to which the extent's entries have no more payload than this, and how much they have.

        One before the first, and 0, if the first one has more. Bisects, since the header of an entry says how many
        bytes its ledger has up to it.
        """
        async with self._opened(extent) as handle:
            first = extent.first_entry
            before = await self._bytes_through(handle, first - 1, extent) if first else 0
            low, size = first - 1, 0
            high = extent.last_entry
            while low < high:
                middle = (low + high + 1) // 2
                found = await self._bytes_through(handle, middle, extent) - before
                if found <= byte_limit:
                    low, size = middle, found
                else:
                    high = middle - 1
            return low, size

    async def _bytes_through(self, handle: ReadHandle, entry_id: int, extent: Extent) -> int:
        [entry] = await self._retrying(partial(handle.read, entry_id, entry_id), extent)
        return entry.length

    async def _entries(self, extent: Extent) -> AsyncIterator[Entry]:
        async with self._opened(extent) as handle:
            async for entries in self._fetched(handle, extent):
                for entry in entries:
                    yield entry

    @asynccontextmanager
    async def _opened(self, extent: Extent) -> AsyncIterator[ReadHandle]:
        try:
            handle = await self._retrying(partial(self._ledgers.open, LedgerId(extent.ledger_id)), extent)
            try:
                handle.confirm(extent.last_entry)  # planning may have asked other bookies, which know more
                _check_reach(handle, extent)
                yield handle
            finally:
                await handle.close()
        except (LedgerNotFoundError, EntryNotFoundError) as error:
            raise PartitionDataLossError(
                f"messages {extent.start} to {extent.end} have disappeared since the query was planned: {error}",
                start=extent.start,
                end=extent.end,
            ) from error

    async def _fetched(self, handle: ReadHandle, extent: Extent) -> AsyncIterator[list[Entry]]:
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


def _check_reach(handle: ReadHandle, extent: Extent) -> None:
    if handle.last_readable < extent.last_entry:
        raise PartitionDataLossError(
            f"ledger {extent.ledger_id} ends at entry {handle.last_readable}, but the query was planned up to entry "
            f"{extent.last_entry}",
            start=extent.start,
            end=extent.end,
        )


def _cut(extent: Extent, entry_id: int, count: int) -> tuple[int, int]:
    """Which of the entry's messages belong to the extent: from index, to index."""
    skipped = extent.skip if entry_id == extent.first_entry else 0
    limit = count
    if extent.limit is not None and entry_id == extent.last_entry:
        limit = min(extent.limit, count)
    return min(skipped, limit), limit
