"""Streams of a log on a real Spark session: limits, restarts, rotations, takeovers, and what is wrong.

What a stream plans, in more cases and without a session: test_stream_plans.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from dlog.model import Message
from tests.helpers.log.appended import appended
from tests.helpers.spark import first_said, needs_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.timeout(240),
    needs_pyspark("4.2", "streams are read"),
]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


class Stream:
    """A query that copies a log into Parquet files, which Spark does exactly once, and can be started again."""

    def __init__(self, spark: SparkSession, uri: str, log: str, home: Path, **options: object) -> None:
        self._spark = spark
        self._options = {"metadata": uri, "log": log, "startingId": "earliest", **options}
        self._home = home
        self.batches: list[int] = []
        """Rows of the micro-batches that had any."""

    @property
    def checkpoint(self) -> Path:
        return self._home / "checkpoint"

    def start(self, **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("dlog")
        for name, value in self._options.items():
            frame = frame.option(name, str(value))
        writer = frame.load().writeStream.format("parquet").option("path", str(self._home / "rows"))
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def run(self) -> None:
        """Read what is there now."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120)
        self.batches += [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]

    def values(self) -> list[bytes]:
        """What was copied, in the order of the log."""
        rows = self._spark.read.parquet(str(self._home / "rows")).orderBy("message_id").collect()
        return [bytes(row.value) for row in rows]

    def forget_commit(self, batch: int) -> None:
        """As after a crash between the batch and its commit: Spark runs it again."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, cluster: Standalone, tmp_path: Path) -> Callable[..., Stream]:
    return lambda log, **options: Stream(spark, cluster.uri, log, tmp_path, **options)


def test_each_micro_batch_has_exactly_the_rows_that_were_asked_for(
    stream: Callable[..., Stream], numbers: list[Message]
) -> None:
    """Entries have ten messages, ledgers 250: batches of 435 end inside entries and span ledgers.

    The commit of the last one is lost, and Spark repeats it: nothing is doubled.
    """
    copy = stream("numbers", maxRecordsPerTrigger=435)
    copy.run()
    assert copy.batches == [435, 435, 130]
    copy.forget_commit(2)
    copy.run()
    assert copy.values() == [message.payload for message in numbers]


def test_the_first_batch_is_repeated_where_it_began(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    """`latest` is another id at a restart; what was planned before is read again, and nothing after it is skipped."""
    on_cluster(appended("origin", b"before", create=True))
    copy = stream("origin", startingId="latest")
    query = copy.start(processingTime="100 milliseconds")
    until(lambda: query.lastProgress is not None or query.exception() is not None, query)
    on_cluster(appended("origin", b"0", b"1"))
    until(lambda: (copy.checkpoint / "commits" / "0").exists(), query)
    query.stop()
    copy.forget_commit(0)
    on_cluster(appended("origin", b"2"))
    copy.run()
    assert copy.values() == [b"0", b"1", b"2"]


def test_it_follows_a_writer_through_rotations_and_takeovers(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    on_cluster(appended("followed", b"0", create=True))
    copy = stream("followed")
    query = copy.start(processingTime="100 milliseconds")
    wanted = [b"0"]

    async def grow(client: LogClient) -> None:
        for _ in range(3):  # takeovers
            async with client.open_writer("followed") as writer:
                for _ in range(4):
                    value = b"%d" % len(wanted)
                    await writer.append(value)
                    wanted.append(value)
                    await writer.rotate()

    on_cluster(grow)
    until(lambda: query.lastProgress is not None and total(query) >= len(wanted), query)
    query.stop()
    assert copy.values() == wanted
    assert total(query) == len(wanted)


def test_what_is_wrong_is_said_first_and_with_a_token(
    stream: Callable[..., Stream], numbers: list[Message]
) -> None:
    def said(log: str = "numbers", **options: object) -> str:
        return first_said(stream(log, **options).run)

    assert "DLOG_BAD_OPTION: option 'endingId' is for batch reads" in said(endingId="latest")
    assert "DLOG_BAD_OPTION: option 'maxRecordsPerTrigger' must be a whole number" in said(
        maxRecordsPerTrigger=0
    )
    assert "DLOG_NOT_FOUND: log default/nowhere does not exist" in said("nowhere")
    assert "DLOG_BAD_OPTION: startingId 999999:0:0 is in a ledger" in said(startingId="999999:0:0")


def total(query: StreamingQuery) -> int:
    return sum(row["numInputRows"] for row in query.recentProgress)


def until(happened: Callable[[], bool], query: StreamingQuery) -> None:
    give_up_at = time.monotonic() + 60
    while not happened():
        if (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < give_up_at, query.status
        time.sleep(0.05)
