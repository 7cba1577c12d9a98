"""One task: reads its partition, yields Arrow batches, then checks that no message was missing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from dlog.arrow.columns import ArrowColumns
from spark_connector.cluster import open_cluster
from spark_connector.errors import PartitionDataLossError
from spark_connector.extents.extent_reader import ExtentReader
from spark_connector.extents.partitions import Extent, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """What a task needs in addition to its partition; sent to the executor."""

    batch_rows: int
    read_timeout_ms: int
    password_file: str | None = None


def read_partition(
    uri: str, partition: Partition, schema: pa.Schema, settings: TaskSettings
) -> Iterator[pa.RecordBatch]:
    """The partition's messages as record batches of `schema`, on an event loop of their own."""
    gc.freeze()  # PySpark collects all garbage after each task: not among the modules that it has imported, too
    with asyncio.Runner() as runner:
        run = runner.get_loop().run_until_complete  # `runner.run` makes the text of each result
        batches = _record_batches(uri, partition, schema, settings)
        try:
            while (batch := run(_next(batches))) is not None:
                yield batch
        finally:
            run(batches.aclose())


async def _next(batches: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def _record_batches(
    uri: str, partition: Partition, schema: pa.Schema, settings: TaskSettings
) -> AsyncGenerator[pa.RecordBatch, None]:
    columns = ArrowColumns(schema, partition.extents[0].log, settings.batch_rows)
    async with open_cluster(uri, settings.read_timeout_ms, settings.password_file) as cluster:
        reader = ExtentReader(cluster.ledgers, settings.read_timeout_ms, cluster.password)
        for extent in partition.extents:
            columns.log = extent.log
            entries = messages = 0
            async for entry in reader.columns(extent):
                entries += 1
                messages += entry.count
                for full in columns.add(entry):
                    yield full
            _check(extent, entries, messages)
    for rest in columns.rest():
        yield rest


def _check(extent: Extent, entries: int, messages: int) -> None:
    """Compare the messages read with the plan."""
    if entries == extent.entries and extent.messages in (None, messages):
        return
    planned = f"{extent.entries} entries" if extent.messages is None else f"{extent.messages} messages"
    raise PartitionDataLossError(
        f"the query was planned for {planned} of log {extent.log} from {extent.start} to {extent.end}, but "
        f"{messages} messages in {entries} entries were found",
        start=extent.start,
        end=extent.end,
    )
