"""From options to partitions: reads the log's metadata and ledgers once and fixes the result. Changes nothing.

Up to COUNT_BYTES_MAX of entries whose messages are not counted yet are counted here from their envelopes. Why not
always: docs/decisions/0001-spark-partition-counts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlog.metadata.store import LogMetadataStore
from dlog.model import ListedLedger, LogMetadata, LogName
from ledger.client import LedgerClient
from ledger.reading.read_handle import ReadHandle
from spark_connector.bounds import bounded
from spark_connector.cluster import open_cluster
from spark_connector.extent_reader import ExtentReader
from spark_connector.options import ReadOptions
from spark_connector.partitions import Extent, Partition, plan

COUNT_BYTES_MAX = 64 * 1024 * 1024
"""Much less than a second of reading on the driver: the unsealed tail of a log, or a small log."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions, and the canonical address at which tasks find the cluster."""

    uri: str
    partitions: list[Partition]


async def plan_read(options: ReadOptions) -> Plan:
    """Resolve the bounds of a batch read and split it."""
    async with open_cluster(options.metadata) as cluster:
        logs = LogMetadataStore(cluster.store, cluster.environment)
        name = LogName(namespace=options.namespace, name=options.log)
        record = (await logs.read(await logs.find(name))).value
        extents = bounded(record, await _extents(cluster.ledgers, record), options.starting, options.ending)
        partitions = plan(
            extents, partition_bytes=options.partition_bytes, partitions_min=options.partitions_min
        )
        reader = ExtentReader(cluster.ledgers, options.read_timeout_ms)
        return Plan(cluster.store.uri, await _counted(partitions, reader))


async def _extents(ledgers: LedgerClient, record: LogMetadata) -> list[Extent]:
    """The readable part of the log up to its tail, ledger by ledger.

    Ends at the first ledger that is not sealed. Since it was read here, its writer may have added to it, sealed it and
    continued in the next one; entries of the next one must not be returned without those.
    """
    extents: list[Extent] = []
    for listed in record.ledgers:
        extent, sealed = await _extent(ledgers, listed)
        if extent.entries:
            extents.append(extent)
        if not sealed:
            break
    return extents


async def _extent(ledgers: LedgerClient, listed: ListedLedger) -> tuple[Extent, bool]:
    facts = listed.seal
    if facts is not None:
        counted = facts.message_count if facts.message_count >= 0 else None
        return _whole(listed, facts.last_entry, facts.byte_count, counted), True
    handle = await ledgers.open(listed.ledger_id)
    try:
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


async def _counted(partitions: Sequence[Partition], reader: ExtentReader) -> list[Partition]:
    """The same partitions, with missing message counts filled in unless that needs too much reading."""
    missing = sum(e.byte_count for p in partitions for e in p.extents if e.messages is None)
    if missing > COUNT_BYTES_MAX:
        return list(partitions)
    return [Partition(extents=tuple([await _count(e, reader) for e in p.extents])) for p in partitions]


async def _count(extent: Extent, reader: ExtentReader) -> Extent:
    if extent.messages is not None:
        return extent
    return replace(extent, messages=await reader.count(extent))
