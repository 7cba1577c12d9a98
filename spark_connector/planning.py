"""From options to partitions: reads the log's metadata and ledgers once and fixes the result. Changes nothing.

Up to COUNT_BYTES_MAX of entries whose messages are not counted yet are counted here from their envelopes. Why not
always: docs/decisions/0001-spark-partition-counts.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from dlog.read.time_seek import first_at_or_after
from spark_connector.bounds import bounded
from spark_connector.cluster import open_cluster
from spark_connector.extent_reader import ExtentReader
from spark_connector.extents import counted, readable_extents
from spark_connector.options import ReadOptions
from spark_connector.partitions import Partition, plan


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions, and the canonical address at which tasks find the cluster."""

    uri: str
    partitions: list[Partition]


async def plan_read(options: ReadOptions) -> Plan:
    """Resolve the bounds of a batch read and split it."""
    async with open_cluster(options.metadata) as cluster:
        logs = LogMetadataStore(cluster.store, cluster.environment)
        ref = await logs.find(LogName(namespace=options.namespace, name=options.log))
        at_time = partial(first_at_or_after, logs=logs, ref=ref, ledgers=cluster.ledgers)
        starting, ending = options.starting, options.ending
        if options.starting_time_us is not None:
            starting = await at_time(options.starting_time_us)
        if options.ending_time_us is not None:
            ending = await at_time(options.ending_time_us)
        record, extents = await readable_extents(logs, ref, cluster.ledgers)
        partitions = plan(
            bounded(record, extents, starting, ending),
            partition_bytes=options.partition_bytes,
            partitions_min=options.partitions_min,
        )
        reader = ExtentReader(cluster.ledgers, options.read_timeout_ms)
        return Plan(cluster.store.uri, await counted(partitions, reader))
