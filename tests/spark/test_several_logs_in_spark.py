"""Several logs on a real Spark session. What is planned, in more cases and without a session: test_several_logs.py,
test_several_log_streams.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from tests.helpers.log.appended import appended
from tests.helpers.log.filled_log import append_ledgers
from tests.helpers.spark import first_said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(240)]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


@pytest.fixture(scope="module")
def shops(on_cluster: OnCluster) -> dict[str, int]:
    """Messages of the logs `shop-north`, `shop-south` and `shop-west`."""

    async def fill(client: LogClient) -> None:
        await append_ledgers(client, "shop-north", ledgers=3, entries=10, batch=10)
        await append_ledgers(client, "shop-south", ledgers=2, entries=5, batch=4)
        await append_ledgers(client, "shop-west", ledgers=1, entries=1, batch=1)

    on_cluster(fill)
    return {"shop-north": 300, "shop-south": 40, "shop-west": 1}


def counts(frame: DataFrame) -> dict[str, int]:
    return {row["log"]: row["count"] for row in frame.groupBy("log").count().collect()}


def test_a_batch_of_several_logs(spark: SparkSession, cluster: Standalone, shops: dict[str, int]) -> None:
    read = spark.read.format("dlog").option("metadata", cluster.uri)
    assert counts(read.option("logsPattern", "shop-.*").load()) == shops
    frame = spark.read.format("dlog").options(metadata=cluster.uri, logs="shop-west, shop-south").load()
    assert counts(frame) == {"shop-south": 40, "shop-west": 1}
    limited = spark.read.format("dlog").options(
        metadata=cluster.uri, logs="shop-north,shop-west", maxRecordsPerPartition="70"
    )
    partitions = limited.load().rdd.glom().map(len).collect()
    assert sum(partitions) == 301 and max(partitions) <= 70


def test_a_pattern_without_logs_is_an_empty_frame(spark: SparkSession, cluster: Standalone) -> None:
    frame = spark.read.format("dlog").options(metadata=cluster.uri, logsPattern="no-such-.*").load()
    assert frame.count() == 0 and frame.columns[0] == "log"


def test_producers_are_columns(spark: SparkSession, cluster: Standalone, on_cluster: OnCluster) -> None:
    async def fill(client: LogClient) -> None:
        async with client.open_writer("spark-produced", create=True) as writer:
            await writer.append(b"plain")
            producer = await writer.producer("import")
            await producer.append_many([b"one", b"two"], first_sequence=1)

    on_cluster(fill)
    source = spark.read.format("dlog").options(
        metadata=cluster.uri, log="spark-produced", includeProducer="true"
    )
    frame = source.load()
    assert frame.schema.simpleString().endswith("publish_time:timestamp,producer_id:binary,sequence:bigint>")
    rows = frame.collect()
    assert [row.sequence for row in rows] == [None, 1, 2]
    assert [row.producer_id is None for row in rows] == [True, False, False]
    few = source.schema("sequence bigint").load()
    assert [row.sequence for row in few.collect()] == [None, 1, 2]


def test_what_is_wrong_is_said_first_and_with_a_token(
    spark: SparkSession, cluster: Standalone, shops: dict[str, int]
) -> None:
    def said(schema: str | None = None, **options: str) -> str:
        reader = spark.read.format("dlog").options(metadata=cluster.uri, **options)
        return first_said(lambda: (reader if schema is None else reader.schema(schema)).load().collect())

    both = "DLOG_BAD_OPTION: options 'log' and 'logs' each say which logs are read: set only one of them"
    assert both in said(log="shop-west", logs="shop-south")
    assert "DLOG_BAD_OPTION: option 'log' is missing" in said()
    assert "DLOG_BAD_OPTION: option 'logsPattern' '(' is not a valid regular expression" in said(
        logsPattern="("
    )
    lacks = "DLOG_BAD_OPTION: option 'startingId' lacks log 'shop-west', which is read"
    starts = '{"shop-north": "earliest", "shop-south": "earliest"}'
    assert lacks in said(logsPattern="shop-.*", startingId=starts)
    assert "DLOG_NOT_FOUND: log default/shop-east does not exist" in said(logs="shop-west,shop-east")
    column = "DLOG_BAD_OPTION: column 'producer_id' is unknown: use log, message_id"
    assert column in said("value binary, producer_id binary", log="shop-west")
    assert "DLOG_BAD_OPTION: column 'value' is binary, not bigint" in said("value bigint", log="shop-west")


def test_a_stream_follows_a_pattern_through_restarts(
    spark: SparkSession, cluster: Standalone, on_cluster: OnCluster, tmp_path: Path
) -> None:
    """A log comes between two runs, the commit of a batch is lost, and nothing is doubled or left out.

    Where the first run began does not matter any more, so its positions need not name that log.
    """
    starts = '{"flow-a": "earliest", "flow-b": "earliest"}'

    def run(**options: str) -> list[int]:
        source = spark.readStream.format("dlog").options(
            metadata=cluster.uri, logsPattern="flow-.", startingId=starts, **options
        )
        writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]

    on_cluster(appended("flow-a", *[b"%d" % n for n in range(7)], create=True))
    on_cluster(appended("flow-b", *[b"%d" % n for n in range(3)], create=True))
    assert run(maxRecordsPerTrigger="4") == [4, 4, 2]
    on_cluster(appended("flow-c", b"0", b"1", create=True))
    on_cluster(appended("flow-b", b"3"))
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run()
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("log", "message_id").collect()
    assert [(row.log, int(row.value)) for row in rows] == [
        *(("flow-a", n) for n in range(7)),
        *(("flow-b", n) for n in range(4)),
        *(("flow-c", n) for n in range(2)),
    ]
