"""Reads a run of one ledger's entries. Never fences, and never returns less than was requested.

The next entries are fetched while the caller processes the current ones. A ledger or entry that existed at planning
and no longer does is data loss, whatever the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from dlog.format.entry import decode_envelope
from dlog.read.batch import MessageBatch
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, RequestTimeoutError, UnavailableError
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle
from spark_connector.errors import PartitionDataLossError
from spark_connector.partitions import Extent

T = TypeVar("T")

FETCH_ENTRIES = 1000
FETCH_BYTES = 4 * 1024 * 1024
"""Two fetches are in memory at a time, so a task needs some 8 MiB in addition to its rows."""
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 2.0
"""A restarted bookie is back within seconds. Pauses are random, since all tasks lose it at the same time."""


class ExtentReader:
    """Reads extents of one cluster's ledgers. A read with its retries takes `timeout_ms` at most."""

    def __init__(self, ledgers: LedgerClient, timeout_ms: int) -> None:
        self._ledgers = ledgers
        self._timeout_ms = timeout_ms

    async def batches(self, extent: Extent) -> AsyncIterator[MessageBatch]:
        """The extent's messages, an entry at a time, in order."""
        async for entry in self._entries(extent):
            batch = MessageBatch.decoded(extent.ledger_id, entry.entry_id, entry.payload)
            skipped, limit = _cut(extent, entry.entry_id, len(batch))
            yield batch if limit - skipped == len(batch) else batch.slice(skipped, limit)

    async def count(self, extent: Extent) -> int:
        """Number of messages in the extent, from the envelopes of its entries."""
        total = 0
        async for entry in self._entries(extent):
            envelope, _ = decode_envelope(entry.payload)
            skipped, limit = _cut(extent, entry.entry_id, envelope.count)
            total += limit - skipped
        return total

    async def _entries(self, extent: Extent) -> AsyncIterator[Entry]:
        try:
            handle = await self._retrying(partial(self._ledgers.open, LedgerId(extent.ledger_id)), extent)
            try:
                _check_reach(handle, extent)
                async for entries in self._fetched(handle, extent):
                    for entry in entries:
                        yield entry
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
        """The result of `read`, retried while bookies or metadata store are unavailable, up to `timeout_ms`."""
        limit_s = self._timeout_ms / 1000
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(UnavailableError),
            wait=wait_random_exponential(multiplier=_PAUSE_FIRST_S, max=_PAUSE_MAX_S),
            stop=stop_before_delay(limit_s),
            reraise=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                async for attempt in attempts:
                    with attempt:
                        return await read()
                raise AssertionError("the policy ends with a result or an error")
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"ledger {extent.ledger_id} could not be read within readTimeoutMs={self._timeout_ms}: "
                "check its bookies, or raise readTimeoutMs"
            ) from error


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
