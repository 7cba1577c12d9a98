"""Plans and tasks on a real cluster, without a Spark session: exact rows, and a loud end if they cannot be had."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.local.embedded import Standalone
from dlog.model import Message, MessageId
from ledger.client import LedgerClient
from ledger.model import LedgerId, QuorumSizes
from ledger.reading.read_handle import ReadHandle
from spark_connector.errors import SparkSourceError, spark_errors
from spark_connector.extents.partitions import Partition
from spark_connector.options.log_choice import NamedLogs
from spark_connector.options.read_options import ReadOptions
from spark_connector.read.log_partition import LogPartition
from spark_connector.read.schema import read_schema
from spark_connector.read.task import TaskSettings, read_partition
from spark_connector.source import DlogReader
from tests.helpers.log.filled_log import append_ledgers
from tests.helpers.planned_batch import PlannedBatch
from tests.helpers.planned_stream import PlannedStream
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def planned(cluster: Standalone, log: str, **options: Any) -> tuple[DlogReader, list[LogPartition]]:
    reader = DlogReader(
        ReadOptions(metadata=cluster.uri, logs=NamedLogs((log,)), **options), read_schema(False)
    )
    partitions = reader.partitions()
    return reader, [partition for partition in partitions if isinstance(partition, LogPartition)]


def rows_of(reader: DlogReader, partitions: list[LogPartition]) -> list[dict[str, Any]]:
    return [row for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 1),
        ({"partitions_min": 7}, 7),
        ({"partition_bytes": 300}, 8),
        ({"partition_bytes": 1}, 100),
        ({"batch_rows": 3}, 1),
    ],
)
def test_partitions_lose_and_double_nothing(
    cluster: Standalone, numbers: list[Message], options: dict[str, int], least: int
) -> None:
    """Cut anywhere between one partition and one entry each: the same rows in the same order."""
    reader, partitions = planned(cluster, "numbers", **options)
    assert len(partitions) >= least
    found = [(MessageId.from_bytes(row["message_id"]), row["value"]) for row in rows_of(reader, partitions)]
    assert found == [(message.id, message.payload) for message in numbers]


def test_the_address_names_the_root_of_the_logs(cluster: Standalone) -> None:
    """As it does for `dlog.connect`."""

    async def append() -> MessageId:
        async with (
            connect(f"{cluster.uri}?root=/elsewhere") as client,
            client.open_writer("only-elsewhere", create=True) as writer,
        ):
            return await writer.append(b"here")

    message_id = asyncio.run(append())
    reader = DlogReader(
        ReadOptions(metadata=f"{cluster.uri}?root=/elsewhere", logs=NamedLogs(("only-elsewhere",))),
        read_schema(False),
    )
    partitions = [partition for partition in reader.partitions() if isinstance(partition, LogPartition)]
    assert [MessageId.from_bytes(row["message_id"]) for row in rows_of(reader, partitions)] == [message_id]
    with pytest.raises(SparkSourceError, match="DLOG_NOT_FOUND"):
        planned(cluster, "only-elsewhere")


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1000), (13, 987), (250, 500), (333, 334), (500, 500), (999, 1000)]
)
def test_ids_bound_a_read(cluster: Standalone, numbers: list[Message], low: int, high: int) -> None:
    """The start is included and the end is not, also inside an entry."""
    end = numbers[high].id if high < len(numbers) else MessageId(2**40, 0, 0)
    reader, partitions = planned(cluster, "numbers", starting=numbers[low].id, ending=end, partitions_min=3)
    found = [MessageId.from_bytes(row["message_id"]) for row in rows_of(reader, partitions)]
    assert found == [message.id for message in numbers[low:high]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"logs": NamedLogs(("nothing",))}, "DLOG_NOT_FOUND: log default/nothing does not exist"),
        (
            {"starting": MessageId(99999999, 0, 0)},
            "DLOG_BAD_OPTION: startingId 99999999:0:0 is in a ledger",
        ),
        ({"metadata": "sqlite:////nowhere/meta.db"}, "DLOG_UNAVAILABLE: "),
        ({"metadata": "nonsense"}, "DLOG_BAD_OPTION: metadata address 'nonsense' is not valid"),
    ],
)
def test_what_planning_finds_wrong_is_said_with_a_token(
    cluster: Standalone, numbers: list[Message], options: dict[str, Any], sentence: str
) -> None:
    wrong = ReadOptions(**{"metadata": cluster.uri, "logs": NamedLogs(("numbers",)), **options})
    with pytest.raises(SparkSourceError, match=sentence):
        DlogReader(wrong, read_schema(False)).partitions()


def test_every_message_of_a_small_log_is_counted_beforehand(
    cluster: Standalone, numbers: list[Message]
) -> None:
    """Cut into pieces, with bounds inside entries: the plan knows the number of messages of each piece."""
    _, partitions = planned(
        cluster, "numbers", partition_bytes=500, starting=numbers[13].id, ending=numbers[987].id
    )
    counts = [extent.messages for p in partitions for extent in p.partition.extents]
    assert None not in counts
    assert sum(count or 0 for count in counts) == 987 - 13


def test_a_log_deleted_after_planning_is_data_loss(
    cluster: Standalone, on_cluster: Callable[..., Any]
) -> None:
    async def fill(client: LogClient) -> None:
        await append_ledgers(client, "gone", ledgers=2, entries=3, batch=2)

    async def drop(client: LogClient) -> None:
        await client.delete("gone")

    on_cluster(fill)
    reader, partitions = planned(cluster, "gone")
    on_cluster(drop)
    with pytest.raises(
        SparkSourceError, match=r"DLOG_DATA_LOSS: messages .* have disappeared since the query was planned"
    ):
        list(reader.read(partitions[0]))


@pytest.mark.parametrize("change", [{"messages": 251}, {"last_entry": 25}])
def test_a_plan_that_promises_more_than_there_is_fails(
    cluster: Standalone, numbers: list[Message], change: dict[str, int]
) -> None:
    """One message more, or one entry more, than the ledger has."""
    _, partitions = planned(cluster, "numbers")
    extent = replace(partitions[0].partition.extents[0], **change)
    schema = to_arrow_schema(read_schema(False), timezone="UTC")
    settings = TaskSettings(batch_rows=100, read_timeout_ms=5000)
    with pytest.raises(SparkSourceError, match="DLOG_DATA_LOSS"), spark_errors():
        list(read_partition(cluster.uri, Partition(extents=(extent,)), schema, settings))


def test_a_task_waits_for_bookies_that_restart(tmp_path: Path) -> None:
    """All of them are away when it begins to read; within `readTimeoutMs` that costs time, not the query."""
    with Standalone(tmp_path / "cluster", bookies=1) as cluster:
        asyncio.run(_fill_one(cluster.uri))
        reader, partitions = planned(cluster, "short")
        cluster.kill(0)
        back = threading.Timer(1.0, cluster.restart, [0])
        back.start()
        try:
            assert [row["value"] for row in rows_of(reader, partitions)] == [b"0", b"1"]
        finally:
            back.join()


def test_a_task_gives_up_at_its_limit(tmp_path: Path) -> None:
    with Standalone(tmp_path / "cluster", bookies=1) as cluster:
        asyncio.run(_fill_one(cluster.uri))
        reader, partitions = planned(cluster, "short", read_timeout_ms=500)
        cluster.kill(0)
        with pytest.raises(SparkSourceError, match="DLOG_UNAVAILABLE"):
            rows_of(reader, partitions)


async def _fill_one(uri: str) -> None:
    """A log of one bookie's ledgers: two messages in an entry."""
    config = LogConfig(quorum=QuorumSizes(ensemble=1, write=1, ack=1))
    async with await connect(uri, config=config) as client:
        await append_ledgers(client, "short", ledgers=1, entries=1, batch=2)


def test_a_shrunk_start_is_data_loss(cluster: Standalone, on_cluster: Callable[..., Any]) -> None:
    async def fill(client: LogClient) -> MessageId:
        await append_ledgers(client, "short", ledgers=3, entries=2, batch=2)
        info = await client.describe("short")
        first, second, _ = info.record.ledgers[:3]
        await client.shrink("short", MessageId(second.ledger_id, 1, 1))
        return MessageId(first.ledger_id, 0, 0)

    start = on_cluster(fill)
    with pytest.raises(SparkSourceError, match=r"DLOG_DATA_LOSS: messages at startingId .* were trimmed"):
        planned(cluster, "short", starting=start)
    reader, partitions = planned(cluster, "short")
    assert [row["value"] for row in rows_of(reader, partitions)] == [b"7", b"8", b"9", b"10", b"11"]


def test_a_range_goes_on_where_the_last_one_ended_though_that_ledger_was_trimmed(
    cluster: Standalone, on_cluster: Callable[..., Any]
) -> None:
    async def ends(client: LogClient) -> tuple[MessageId, MessageId]:
        await append_ledgers(client, "ranges", ledgers=1, entries=2, batch=2)
        before = (await client.overview("ranges")).tail
        await append_ledgers(client, "ranges", ledgers=1, entries=1, batch=1)
        async with client.reader("ranges", start=before, until="latest") as reader:
            [first] = [message.id async for message in reader]
        await client.shrink("ranges", first)
        return before, first

    tail, first = on_cluster(ends)
    assert tail < first
    assert [row["message_id"] for row in PlannedBatch(cluster.uri, log="ranges", startingId=tail).rows] == [
        first.to_bytes()
    ]
    assert len(PlannedStream(cluster.uri, log="ranges", startingId=tail).batch()) == 1
    with pytest.raises(SparkSourceError, match=r"DLOG_DATA_LOSS: messages at startingId .* were trimmed"):
        PlannedBatch(cluster.uri, log="ranges", startingId=MessageId(tail.ledger_id, tail.entry_id - 1, 0))


PLAIN_READ = """
import importlib.abc, sys


class WithoutPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, WithoutPandas())
from pyspark_dlog import DefaultSource
source = DefaultSource({"metadata": sys.argv[1], "log": "numbers", "includeHeaders": "true"})
reader = source.reader(source.schema())
print(sum(batch.num_rows for each in reader.partitions() for batch in reader.read(each)), 'dlog.client' in sys.modules)
"""


def test_neither_pandas_nor_the_client_is_loaded(cluster: Standalone, numbers: list[Message]) -> None:
    """Neither for planning nor for a task; PySpark warns of newer versions of pandas at each read where it is there."""
    command = [sys.executable, "-W", "error", "-c", PLAIN_READ, cluster.uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert (done.stdout, done.stderr) == ("1000 False\n", "")


@pytest.mark.parametrize(("first", "end"), [(0, 1000), (130, 870), (990, 1000), (500, 500)])
def test_times_bound_a_read_at_entries(
    cluster: Standalone, numbers: list[Message], first: int, end: int
) -> None:
    """Ids are given, too, and do not count."""
    since_us = numbers[first].append_time_us
    until_us = numbers[end].append_time_us if end < 1000 else numbers[-1].append_time_us + 1
    reader, partitions = planned(
        cluster,
        "numbers",
        starting=numbers[700].id,
        ending=numbers[710].id,
        starting_time_us=since_us,
        ending_time_us=until_us,
    )
    wanted = [message.payload for message in numbers if since_us <= message.append_time_us < until_us]
    assert [row["value"] for row in rows_of(reader, partitions)] == wanted


def test_planning_looks_again_when_its_ledger_was_trimmed_and_deleted(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the record, and before it opens the last ledger that one is sealed, trimmed and deleted."""

    async def fill() -> None:
        async with (
            await connect(cluster.uri) as client,
            client.open_writer("overtaken", create=True) as writer,
        ):
            await writer.append(b"old")
            writer.abort()

    open_ledger, calls = LedgerClient.open, []

    async def open_late(client: LedgerClient, ledger_id: LedgerId, *given: Any) -> ReadHandle:
        calls.append(ledger_id)
        if len(calls) == 1:
            monkeypatch.undo()
            async with await connect(cluster.uri) as other:
                async with other.open_writer("overtaken") as writer:
                    new = await writer.append(b"new")
                    await writer.rotate()
                    await writer.append(b"newer")
                    await writer.rotate()  # now the record has the seal of the ledger with "new"
                    await other.shrink("overtaken", new)
                await other.collect("overtaken")
            monkeypatch.setattr(LedgerClient, "open", open_late)
        return await open_ledger(client, ledger_id, *given)

    asyncio.run(fill())
    monkeypatch.setattr(LedgerClient, "open", open_late)
    reader, partitions = planned(cluster, "overtaken")
    assert [row["value"] for row in rows_of(reader, partitions)] == [b"new", b"newer"]
    assert len(set(calls)) == 3
