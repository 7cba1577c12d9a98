"""Batch reads of one log on a real Spark session, compared with what the SDK reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from dlog.model import Message, MessageId
from tests.helpers.spark import first_said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


@pytest.fixture
def load(spark: SparkSession, cluster: Standalone) -> Callable[..., DataFrame]:
    def load(log: str, **options: object) -> DataFrame:
        reader = spark.read.format("dlog").option("metadata", cluster.uri).option("log", log)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    return load


def ids_of(frame: DataFrame) -> list[MessageId]:
    rows = frame.select("message_id").collect()
    return [MessageId.from_bytes(bytes(row.message_id)) for row in rows]


def test_the_source_is_found_without_being_registered(
    load: Callable[..., DataFrame], numbers: list[Message]
) -> None:
    """Spark finds `pyspark_dlog` by its name; the schema is exactly the documented one."""
    frame = load("numbers", includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<log:string,message_id:binary,ledger_id:bigint,entry_id:bigint,batch_index:int,key:binary,"
        "value:binary,publish_time:timestamp,headers:array<struct<key:string,value:binary>>>"
    )
    nullable = [field.name for field in frame.schema if field.nullable]
    assert nullable == ["key", "value"]


def test_every_message_comes_once_in_order(load: Callable[..., DataFrame], numbers: list[Message]) -> None:
    rows = load("numbers").collect()
    assert [bytes(row.value) for row in rows] == [message.payload for message in numbers]
    assert [bytes(row.key) for row in rows] == [message.key for message in numbers]
    assert [MessageId(row.ledger_id, row.entry_id, row.batch_index) for row in rows] == [
        m.id for m in numbers
    ]
    assert [bytes(row.message_id) for row in rows] == [message.id.to_bytes() for message in numbers]
    assert {row.log for row in rows} == {"numbers"}
    assert [round(row.publish_time.timestamp() * 1e6) for row in rows] == [m.append_time_us for m in numbers]


def test_many_partitions_lose_and_double_nothing(
    load: Callable[..., DataFrame], numbers: list[Message]
) -> None:
    """Bounds inside entries, and pieces of a few entries each."""
    frame = load("numbers", minPartitions=7, batchRows=3, startingId=numbers[13].id, endingId=numbers[987].id)
    assert frame.rdd.getNumPartitions() >= 7
    assert ids_of(frame) == [message.id for message in numbers[13:987]]


def test_latest_to_latest_is_empty(load: Callable[..., DataFrame], numbers: list[Message]) -> None:
    """An empty plan, which Spark turns into one task without a partition."""
    assert load("numbers", startingId="latest").count() == 0


def test_null_and_empty_differ_and_headers_keep_their_order(
    load: Callable[..., DataFrame], on_cluster: OnCluster
) -> None:
    async def fill(client: LogClient) -> None:
        async with client.open_writer("odd", create=True) as writer:
            await writer.append(None, b"")
            await writer.append(b"", None, [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")])
            await writer.append(b"x" * 300_000, b"\xff")

    on_cluster(fill)
    rows = load("odd", includeHeaders="true").collect()
    assert [(row.key, row.value) for row in rows[:2]] == [(b"", None), (None, b"")]
    assert [(header.key, bytes(header.value)) for header in rows[1].headers] == [
        ("b", b"1"),
        ("a", b"2"),
        ("b", b"3"),
    ]
    assert rows[0].headers == []
    assert (bytes(rows[2].key), len(rows[2].value)) == (b"\xff", 300_000)


def test_a_log_that_is_being_written_is_read_up_to_its_tail_and_not_fenced(
    load: Callable[..., DataFrame], on_cluster: OnCluster
) -> None:
    """The writer is open before, during and after the query, and all that it had acknowledged is there."""

    async def write_and_read(client: LogClient) -> list[MessageId]:
        import asyncio

        async with client.open_writer("live", create=True) as writer:
            for number in range(20):
                await writer.append(b"%d" % number)
            await writer.rotate()
            await writer.append_many([b"20", b"21"])
            found = await asyncio.to_thread(lambda: ids_of(load("live")))
            await writer.append(b"22")
        return found

    assert len(on_cluster(write_and_read)) == 22


def test_only_the_columns_asked_for(
    load: Callable[..., DataFrame], spark: SparkSession, cluster: Standalone, numbers: list[Message]
) -> None:
    frame = (
        spark.read.format("dlog")
        .schema("value binary, entry_id bigint")
        .options(metadata=cluster.uri)
        .load("numbers")
    )
    assert frame.columns == ["value", "entry_id"]
    assert [bytes(row.value) for row in frame.collect()] == [message.payload for message in numbers]


def test_sql_sees_a_log_as_a_table(spark: SparkSession, cluster: Standalone, numbers: list[Message]) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW numbers USING dlog OPTIONS (metadata '{cluster.uri}', log 'numbers')")
    (row,) = spark.sql(
        "SELECT count(*) AS n, sum(CAST(decode(value, 'UTF-8') AS int)) AS total, max(message_id) AS last FROM numbers"
    ).collect()
    assert (row.n, row.total, bytes(row["last"])) == (1000, sum(range(1000)), numbers[-1].id.to_bytes())


def test_what_is_wrong_is_said_first_and_with_a_token(
    load: Callable[..., DataFrame], numbers: list[Message], on_cluster: OnCluster
) -> None:
    """One mistake that the options show, one that only planning finds, one that only a task finds."""
    wrong = "DLOG_BAD_OPTION: option 'startingId': message id '1:2' is not valid"
    assert wrong in first_said(lambda: load("numbers", startingId="1:2"))
    missing = "DLOG_NOT_FOUND: log default/nothing does not exist"
    assert missing in first_said(lambda: load("nothing").collect())

    async def make(client: LogClient) -> None:
        async with client.open_writer("short-lived", create=True) as writer:
            await writer.append_many([b"0", b"1"])

    async def drop(client: LogClient) -> None:
        await client.delete("short-lived")

    on_cluster(make)
    planned = load("short-lived")
    assert planned.rdd.getNumPartitions() == 1
    on_cluster(drop)
    assert "DLOG_DATA_LOSS: messages " in first_said(planned.collect)
