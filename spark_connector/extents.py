"""What of a log can be read now, ledger by ledger. Reads metadata and last add confirmed; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, MessageId
from ledger.client import LedgerClient
from ledger.reading.read_handle import ReadHandle
from spark_connector.extent_reader import ExtentReader
from spark_connector.partitions import Extent, Partition

COUNT_BYTES_MAX = 64 * 1024 * 1024
"""Much less than a second of reading on the driver: the unsealed tail of a log, or a small log."""


async def readable_extents(
    logs: LogMetadataStore,
    ref: LogRef,
    ledgers: LedgerClient,
    start: MessageId = EARLIEST_ID,
    confirmed: MessageId = EARLIEST_ID,
) -> tuple[LogMetadata, list[Extent]]:
    """A fresh record, and the readable part of each of its ledgers from that of `start` on, up to the tail.

    An earlier look has found that what is below `confirmed` is readable; this one may ask bookies that know less.

    Raises:
        DataLossError: a listed ledger does not exist.
        LogNotFoundError: the log was deleted.
    """

    async def look(listed: LedgerList) -> tuple[LogMetadata, list[Extent]]:
        return listed.record, await _extents(ledgers, listed, start, confirmed)

    return await with_fresh_record(logs, ref, ledgers.environment, look, "the end")


async def _extents(
    ledgers: LedgerClient, ledger_list: LedgerList, start: MessageId, confirmed: MessageId
) -> list[Extent]:
    """Ends at the first ledger that is not sealed. Since it was read here, its writer may have added to it, sealed it
    and continued in the next one; entries of the next one must not be returned without those.
    """
    extents: list[Extent] = []
    async for listed in ledger_list.walk(start.ledger_id):
        extent, sealed = await _extent(ledgers, listed, confirmed)
        if extent.entries:
            extents.append(extent)
        if not sealed:
            break
    return extents


async def _extent(ledgers: LedgerClient, listed: ListedLedger, confirmed: MessageId) -> tuple[Extent, bool]:
    facts = listed.seal
    if facts is not None:
        counted = facts.message_count if facts.message_count >= 0 else None
        return _whole(listed, facts.last_entry, facts.byte_count, counted), True
    handle = await ledgers.open(listed.ledger_id)
    try:
        if listed.ledger_id == confirmed.ledger_id:
            handle.confirm(confirmed.entry_id if confirmed.batch_index else confirmed.entry_id - 1)
        last = handle.last_readable
        return _whole(listed, last, await _length(handle, last), None), handle.closed
    finally:
        await handle.close()


async def _length(handle: ReadHandle, last_entry: int) -> int:
    """Payload bytes of the ledger up to `last_entry`, from the header of that entry."""
    if handle.closed or last_entry < 0:
        return max(0, handle.metadata.length)
    (entry,) = await handle.read(last_entry, last_entry)
    return entry.length


def _whole(listed: ListedLedger, last_entry: int, byte_count: int, messages: int | None) -> Extent:
    return Extent(
        ledger_id=listed.ledger_id,
        first_entry=0,
        last_entry=last_entry,
        byte_count=byte_count,
        messages=messages,
    )


async def counted(partitions: Sequence[Partition], reader: ExtentReader) -> list[Partition]:
    """The same partitions, with missing message counts filled in unless that needs too much reading."""
    missing = sum(e.byte_count for p in partitions for e in p.extents if e.messages is None)
    if missing > COUNT_BYTES_MAX:
        return list(partitions)
    return [Partition(extents=tuple([await _count(e, reader) for e in p.extents])) for p in partitions]


async def _count(extent: Extent, reader: ExtentReader) -> Extent:
    if extent.messages is not None:
        return extent
    return replace(extent, messages=await reader.count(extent))
