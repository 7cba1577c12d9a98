"""Bookies and metadata stores that die or hang, and damaged entries: all rows, or an error in time, never fewer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from dlog.client import LogClient, connect
from dlog.core.metadata_update import Applied
from dlog.local.embedded import Standalone
from dlog.model import ListedLedger, Owner, SealFacts
from ledger.model import QuorumSizes
from spark_connector.errors import SparkSourceError, spark_errors
from spark_connector.options.log_choice import NamedLogs
from spark_connector.options.read_options import ReadOptions
from spark_connector.read.log_partition import LogPartition, read_log_partition
from spark_connector.read.planning import plan_read
from spark_connector.read.schema import read_schema
from tests.helpers.planned_stream import PlannedStream
from tests.helpers.processes.cluster import Cluster, forked_cluster

pytestmark = [pytest.mark.spark, pytest.mark.integration]

TIMEOUT_MS = 2000
IN_TIME_S = 15.0
"""Far above TIMEOUT_MS, and far below what the client's own timeouts add up to."""
LARGE = 24
VALUE = b"0123456789abcdef" * 30_000
"""24 messages of 480 kB are three fetches; a task has two of them in memory."""


def options_of(uri: str, **options: Any) -> ReadOptions:
    found: dict[str, Any] = {"batch_rows": 1, "read_timeout_ms": TIMEOUT_MS, **options}
    return ReadOptions(metadata=uri, logs=NamedLogs(("orders",)), **found)


def batches_of(options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """What one task after the other returns."""
    with spark_errors():
        plan = asyncio.run(plan_read(options))
    for partition in plan.partitions:
        yield from read_log_partition(options, read_schema(False), LogPartition(plan.uri, partition))


def values_of(options: ReadOptions) -> list[bytes]:
    return [value for batch in batches_of(options) for value in batch["value"].to_pylist()]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Standalone]:
    """Log `orders` with LARGE messages in a sealed ledger, on three bookies."""
    with Standalone(tmp_path / "cluster") as cluster:
        asyncio.run(fill(cluster.uri))
        yield cluster


async def fill(uri: str, *, seal: bool = True) -> None:
    async with connect(uri) as client:
        writer = await client.open_writer("orders", create=True)
        for _ in range(LARGE):
            await writer.append(VALUE)
        if seal:
            await writer.close()
        else:
            writer.abort()


def test_a_bookie_that_dies_during_a_read_costs_no_row(filled: Standalone) -> None:
    batches = batches_of(options_of(filled.uri, read_timeout_ms=60_000))
    first = next(batches)
    filled.kill(1)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == LARGE


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_a_read_without_enough_bookies_ends_in_time(tmp_path: Path, fault: str) -> None:
    """All of them die, or hang, when the first row has been returned."""
    async with forked_cluster(tmp_path) as cluster:
        await fill(cluster.uri)
        batches = batches_of(options_of(cluster.uri))
        await asyncio.to_thread(next, batches)
        with struck(cluster, fault):
            await fails_in_time(lambda: list(batches))


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_planning_without_bookies_ends_in_time(tmp_path: Path, fault: str) -> None:
    """The log's last ledger is open, so only its bookies know where it ends. A batch, and a stream."""
    async with forked_cluster(tmp_path) as cluster:
        await fill(cluster.uri, seal=False)
        stream = await asyncio.to_thread(opened, cluster.uri)
        with struck(cluster, fault):
            await fails_in_time(lambda: values_of(options_of(cluster.uri)))
            await fails_in_time(stream.latest)
        stream.reader.stop()


def opened(uri: str) -> PlannedStream:
    return PlannedStream(uri, log="orders", readTimeoutMs=TIMEOUT_MS)


@contextmanager
def struck(cluster: Cluster, fault: str) -> Iterator[None]:
    """All bookies are killed or paused."""
    for bookie in cluster.bookies:
        getattr(bookie, fault)()
    try:
        yield
    finally:
        if fault == "pause":
            for bookie in cluster.bookies:
                bookie.resume()


async def fails_in_time(ask: Callable[[], object]) -> None:
    began = time.monotonic()
    with pytest.raises(SparkSourceError, match=r"^DLOG_UNAVAILABLE: "):
        await asyncio.to_thread(ask)
    assert time.monotonic() - began < IN_TIME_S


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        (
            "zk://127.0.0.1:1/ledgers",
            "DLOG_UNAVAILABLE: the metadata store at zk://127.0.0.1:1/ledgers did not",
        ),
        ("sqlite:////nowhere/meta.db", "DLOG_UNAVAILABLE: "),
        ("nonsense", "DLOG_BAD_OPTION: metadata address 'nonsense' is not valid"),
    ],
)
def test_a_metadata_store_that_is_not_there_is_reported_in_time(uri: str, sentence: str) -> None:
    began = time.monotonic()
    with pytest.raises(SparkSourceError) as caught:
        values_of(options_of(uri, read_timeout_ms=500))
    assert str(caught.value).startswith(sentence)
    assert time.monotonic() - began < IN_TIME_S


@pytest.mark.slow
async def test_damaged_copies_are_passed_over_and_never_returned(tmp_path: Path) -> None:
    """With two of three copies damaged every row comes from the third; with all of them there is no row.

    Bookies find the damage themselves, and an error of a disk may pass.
    """
    async with forked_cluster(tmp_path) as cluster:
        await fill(cluster.uri)
        for number in (0, 1):
            await damage(cluster, number)
        found = await asyncio.to_thread(values_of, options_of(cluster.uri, read_timeout_ms=60_000))
        assert found == [VALUE] * LARGE
        await damage(cluster, 2)
        with pytest.raises(SparkSourceError, match=r"^DLOG_UNAVAILABLE: entry 0 .* answered EIO"):
            await asyncio.to_thread(values_of, options_of(cluster.uri))


async def damage(cluster: Cluster, number: int) -> None:
    """Stop the bookie, change a byte of each copy of VALUE that it has stored, start it."""
    assert await cluster.bookies[number].stop() == 0
    changed = 0
    for path in cluster.bookie_directory(number).rglob("*"):
        if path.is_file() and VALUE in (data := path.read_bytes()):
            changed += data.count(VALUE)
            path.write_bytes(data.replace(VALUE, b"#" + VALUE[1:]))
    assert changed >= LARGE
    await cluster.restart(number)


@pytest.mark.parametrize("is_counted", [True, False])
async def test_an_entry_that_is_no_entry_of_a_log_is_reported(tmp_path: Path, is_counted: bool) -> None:
    """Its digest is right. Planning finds it if it has to count, otherwise a task does."""
    async with forked_cluster(tmp_path, bookies=1) as cluster:
        async with connect(cluster.uri) as client:
            await list_foreign_ledger(client, 3 if is_counted else -1)
        with pytest.raises(
            SparkSourceError, match=r"^DLOG_DATA_LOSS: entry 0 of ledger \d+ of log orders .* byte 0x66"
        ):
            await asyncio.to_thread(values_of, options_of(cluster.uri))


async def list_foreign_ledger(client: LogClient, message_count: int) -> None:
    handle = await client.ledgers.create(QuorumSizes(ensemble=1, write=1, ack=1))
    handle.submit(b"foreign")
    await handle.drain()
    await handle.close()
    await client.create("orders")
    ref = await client.logs.find(client.name("orders"))
    read = await client.logs.read(ref)
    seal = SealFacts(last_entry=0, message_count=message_count, byte_count=7)
    listed = ListedLedger(ledger_id=handle.ledger_id, epoch=1, created_us=1, seal=seal)
    record = replace(
        read.value,
        epoch=1,
        owner=Owner(instance="foreign"),
        ledgers=(listed,),
        last_ledger_id=handle.ledger_id,
        nonce=1,
    )
    assert isinstance(await client.logs.compare_and_set(ref, record, read.version), Applied)


def test_the_schema_of_a_partition_is_what_spark_expects(filled: Standalone) -> None:
    expected = to_arrow_schema(read_schema(False), timezone="UTC")
    assert next(batches_of(options_of(filled.uri))).schema.equals(expected, check_metadata=True)
