"""Writing a stream to a log, on a real Spark session: each micro-batch once, whatever is repeated or killed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dlog
from dlog.local.embedded import Standalone
from tests.helpers.log.appended import appended
from tests.helpers.spark import first_said, needs_pyspark
from tests.helpers.spark_copy import Copy, OnCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.timeout(400),
    needs_pyspark("4.2", "streams are read"),
]


@pytest.fixture
def copy(
    spark: SparkSession,
    cluster: Standalone,
    on_cluster: OnCluster,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Callable[..., Copy]:
    name = re.sub(r"[^a-z_]", "-", request.node.originalname)[:100]
    return lambda **options: Copy(spark, cluster.uri, on_cluster, name, tmp_path / "checkpoint", **options)


@pytest.mark.slow
def test_each_micro_batch_is_published_once_however_often_it_is_run(copy: Callable[..., Copy]) -> None:
    """The commit log of Spark is lost after the sink has committed: the batch runs again and publishes nothing.

    The mark is that of the query, and the local properties of tasks, which Spark does not promise, give its number.
    """
    it = copy()
    for batch in range(2):
        it.feed()
        query_id = it.run()
        assert it.values() == it.all()
        [mark] = it.record().sinks
        assert (mark.writer_id, mark.batch) == (query_id, batch)
        before = it.record().ledger_ids
        it.forget_commit(batch)
        it.run()
        assert it.record().ledger_ids == before
    assert it.values() == it.all()
    assert it.ledgers() == it.listed(), "tasks of a replay write nothing"


@pytest.mark.nightly  # test_forced_restarts.py kills drivers, and test_restarts.py has both sides of the commit
@pytest.mark.slow
def test_a_batch_that_was_not_committed_is_run_again(copy: Callable[..., Copy], tmp_path: Path) -> None:
    """The driver is killed with its tasks, before the sink's commit and after it: processes of their own."""
    it = copy(writerId="copy")
    for number, where in enumerate(("before", "after")):
        it.feed()
        driver = [sys.executable, "-m", "tests.helpers.killed_driver", it.uri, it.source, it.target]
        ended = subprocess.run(
            [*driver, str(it.checkpoint), where], check=False, timeout=150, capture_output=True
        )
        assert ended.returncode == -9, ended.stderr.decode()[-3000:]
        assert not (it.checkpoint / "commits" / str(number)).exists()
        assert len(it.values()) == (10 if where == "before" and number else 0) + (
            20 if where == "after" else 0
        )
        it.run()
        assert it.values() == it.all()
        assert [(mark.writer_id, mark.batch) for mark in it.record().sinks] == [("copy", number)]
    strays = it.ledgers() - it.listed()
    assert len(strays) == 1, "of the driver that was killed before the commit"
    it._on_cluster(lambda client: client.admin.sweep(age_s=-1))
    assert it.ledgers() == it.listed(), "its batch was published with others"
    assert it.values() == it.all()


def test_a_writer_and_the_query_depose_each_other(copy: Callable[..., Copy], on_cluster: OnCluster) -> None:
    """A writer before a batch is deposed by it; one that opens during a batch ends the query."""
    it = copy(queryName="copying")
    it.feed()
    it.run()
    on_cluster(appended(it.target, b"1000"))
    it.feed()
    it.passing = opening(it.uri, it.target)
    said = first_said(it.run)
    assert "DLOG_OWNERSHIP_LOST: log default/" in said
    assert "was taken over by the other one" in said
    assert it.values() == [*range(10), 1000]
    it.passing = lambda rows: rows
    it.run()
    assert it.values() == [*range(10), 1000, *range(10, 20)]
    assert it.record().owner.name == "Spark sink copying"
    it._on_cluster(lambda client: client.admin.sweep(age_s=-1))
    assert it.ledgers() == it.listed()


@pytest.mark.slow
def test_a_batch_below_the_last_one_of_its_writer_id_is_refused_and_not_taken_for_a_replay(
    copy: Callable[..., Copy],
) -> None:
    """A query with a new checkpoint begins at batch 0: with the id of an earlier query its rows would be dropped."""
    it = copy(writerId="copy")
    for _ in range(2):
        it.feed()
        it.run()
    first, it.checkpoint = it.checkpoint, it.checkpoint.with_name("another")
    said = first_said(it.run)
    assert "DLOG_BAD_OPTION: log default/" in said
    assert "has batch 1 of writer id 'copy', and this query is at batch 0" in said
    assert "a new checkpoint with another writerId" in said
    assert it.values() == it.all()
    assert it.ledgers() == it.listed()
    it.checkpoint = first
    it.feed()
    it.run()
    assert it.values() == it.all()


def opening(uri: str, log: str) -> Callable[[DataFrame], DataFrame]:
    """Each row, once an ordinary writer of this log was opened."""

    def opened(value: bytes) -> bytes:

        with dlog.connect(uri, config=dlog.LogConfig(owner_name="the other one")) as client:
            client.open_writer(log).close()
        return value

    def passed(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return rows.withColumn("value", f.udf(opened, "binary", useArrow=False)("value"))

    return passed


def test_without_exactly_once_it_appends_in_one_task(copy: Callable[..., Copy]) -> None:
    it = copy(exactlyOnce="false")
    it.feed()
    it.run()
    it.forget_commit(0)
    it.run()
    assert it.values() == it.all() * 2, "at least once"
    assert it.record().sinks == ()


def test_what_is_wrong_is_said_first_and_with_a_token(copy: Callable[..., Copy], spark: SparkSession) -> None:
    it = copy()
    it.feed()

    def said(mode: str = "append", columns: str = "cast(value as string) as value", **options: object) -> str:
        rows = (
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr(columns)
        )
        place = str(it.checkpoint.with_name(f"other-{time.monotonic_ns()}"))
        found = {"metadata": it.uri, "log": it.target, "checkpointLocation": place, **options}
        writer = rows.writeStream.format("dlog").outputMode(mode)
        for name, value in found.items():
            writer = writer.option(name, str(value))

        def run() -> None:
            query = writer.trigger(once=True).start()
            try:
                query.awaitTermination(60)
            finally:
                query.stop()

        return first_said(run)

    assert "DLOG_BAD_OPTION: option 'batchId' is for batch writes" in said(batchId=1)
    assert "DLOG_BAD_OPTION: option 'failondataloss' is unknown" in said(failOnDataLoss="true")
    assert "DLOG_BAD_OPTION: column 'value' is bigint" in said(columns="value")
    assert "DLOG_NOT_FOUND: log default/nowhere does not exist" in said(log="nowhere")
    assert "DLOG_BAD_OPTION: option 'writerId': a sink's writer id must have" in said(writerId="")
    assert it.record().epoch == 0
