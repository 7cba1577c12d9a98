"""Logs with a password from Spark: the file that the option `passwordFile` names, on driver and executors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from spark_connector.cluster import open_cluster
from spark_connector.errors import SparkSourceError
from spark_connector.source import DlogDataSource
from tests.helpers.spark import needs_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(400)]

T = TypeVar("T")

PASSWORD = b"secret \xff"
"""Not only text."""
MISSING = r"the query does not have the password of ledger \d+: set option 'passwordFile'"


def with_password(cluster: Standalone, work: Callable[[LogClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with await connect(cluster.uri, config=LogConfig(password=PASSWORD)) as client:
            return await work(client)

    return asyncio.run(connected())


async def payloads(client: LogClient, log: str) -> list[bytes | None]:
    """All of the log; UnauthorizedError: one of its ledgers has another password."""
    async with client.reader(log, until="latest") as reader:
        return [message.payload async for message in reader]


@pytest.fixture(scope="module")
def locked(cluster: Standalone) -> list[MessageId]:
    """Log `locked` with 30 messages in two sealed ledgers and an open one."""

    async def fill(client: LogClient) -> list[MessageId]:
        found: list[MessageId] = []
        for _ in range(3):
            writer = await client.open_writer("locked", create=True)
            found += await writer.append_many([b"%d" % n for n in range(10)])
        writer.abort()
        return found

    return with_password(cluster, fill)


@pytest.fixture
def options(cluster: Standalone, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "password").write_bytes(PASSWORD + b"\n")
    return {"metadata": cluster.uri, "log": "locked", "passwordFile": str(tmp_path / "password")}


def empty_log(cluster: Standalone, name: str) -> None:
    async def make() -> None:
        async with await connect(cluster.uri) as client:
            await client.create(name)

    asyncio.run(make())


def value_schema() -> StructType:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField("value", BinaryType())])


def test_batches_are_read_and_written(
    spark: SparkSession, cluster: Standalone, options: dict[str, str], locked: list[MessageId]
) -> None:
    """Bounds that are in an open ledger, a time among them; ledgers of tasks, and of an ordinary writer."""
    frame = spark.read.format("dlog").options(**options).load()
    assert frame.count() == 30
    part = {"startingTimestamp": "2013-01-05", "maxRecordsPerPartition": "7"}
    assert spark.read.format("dlog").options(**options, **part).load().count() == 30
    assert spark.read.format("dlog").options(**options, startingId=str(locked[25])).load().count() == 5
    empty_log(cluster, "locked-copy")
    copying = (
        frame.select("value").coalesce(1).write.format("dlog").options(**options).option("log", "locked-copy")
    )
    copying.mode("append").save()
    copying.option("exactlyOnce", "false").mode("append").save()
    copying.option("exactlyOnce", "true").mode("append").save()
    found = with_password(cluster, lambda client: payloads(client, "locked-copy"))
    assert found == [b"%d" % (n % 10) for n in range(30)] * 3


@needs_pyspark("4.2", "streams are read")
def test_a_stream_is_read_and_written(
    spark: SparkSession, cluster: Standalone, options: dict[str, str], locked: list[MessageId], tmp_path: Path
) -> None:
    empty_log(cluster, "locked-stream")
    rows: DataFrame = (
        spark.readStream.format("dlog")
        .options(**options)
        .option("startingTimestamp", "2013-01-05")
        .option("maxRecordsPerTrigger", "12")
        .load()
    )
    query = (
        rows.select("value")
        .coalesce(1)
        .writeStream.format("dlog")
        .options(**{**options, "log": "locked-stream", "checkpointLocation": str(tmp_path / "checkpoint")})
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = with_password(cluster, lambda client: payloads(client, "locked-stream"))
    assert found == [b"%d" % (n % 10) for n in range(30)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, MISSING),
        (b"another", MISSING),
        (b"", "'passwordFile' must name a file with the log's password, 1 to 4096 bytes, and .* has none"),
        (b"x" * 4097, "and .* has more"),
        (Path("/no/such/file"), "'passwordFile' names a file that cannot be read: .*No such file"),
    ],
    ids=["none", "another", "empty", "long", "no-file"],
)
def test_what_is_no_password_of_the_log_is_refused_everywhere(
    cluster: Standalone,
    options: dict[str, str],
    locked: list[MessageId],
    content: bytes | Path | None,
    sentence: str,
) -> None:
    """Before anything is read or written: of a log with a password, the open ledger is read in planning."""
    if content is None:
        del options["passwordFile"]
    elif isinstance(content, Path):
        options["passwordFile"] = str(content)
    else:
        Path(options["passwordFile"]).write_bytes(content)
    source = DlogDataSource(options)
    before = with_password(cluster, lambda client: client.describe("locked"))
    with pytest.raises(SparkSourceError, match=f"^DLOG_BAD_OPTION: .*{sentence}"):
        source.writer(value_schema(), False)
    assert with_password(cluster, lambda client: client.describe("locked")) == before
    timed = DlogDataSource({**options, "startingTimestamp": "2013-01-05"})
    with pytest.raises(SparkSourceError, match=f"^DLOG_BAD_OPTION: .*{sentence}"):
        timed.reader(timed.schema()).partitions()


def test_a_password_for_a_log_without_one_is_refused(
    cluster: Standalone, options: dict[str, str], numbers: object
) -> None:
    source = DlogDataSource({**options, "log": "numbers", "startingTimestamp": "2013-01-05"})
    with pytest.raises(SparkSourceError, match=r"^DLOG_BAD_OPTION: .*leave it out if the log has none"):
        source.reader(source.schema()).partitions()


def test_no_text_shows_the_password(cluster: Standalone, options: dict[str, str]) -> None:
    async def shown() -> str:
        async with open_cluster(cluster.uri, password_file=options["passwordFile"]) as connected:
            assert connected.password == PASSWORD
            return repr(connected)

    assert "secret" not in asyncio.run(shown())
