"""What a version of PySpark lacks is refused in one sentence, and nothing is changed; tools/spark-versions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from tests.helpers.log.appended import appended
from tests.helpers.log.producer import read_all
from tests.helpers.spark import first_said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


def test_each_use_works_or_is_refused_in_a_sentence(
    spark: SparkSession, cluster: Standalone, on_cluster: OnCluster, tmp_path: Path
) -> None:
    """Batches are read with every version, written from 4.1 on; streams written from 4.1 on, read from 4.2 on."""
    on_cluster(appended("versions", b"0", b"1", create=True))
    on_cluster(lambda client: client.create("versions-copy"))
    at = {"metadata": cluster.uri}
    rows = spark.read.format("dlog").options(**at, log="versions").load()
    assert [bytes(row.value) for row in rows.collect()] == [b"0", b"1"]

    def write() -> None:
        writer = rows.select("value").write.format("dlog").options(**at, log="versions-copy")
        writer.mode("append").save()

    def run(target: Any) -> None:
        checkpoint = tmp_path / f"checkpoint-{time.monotonic_ns()}"
        query = target.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def read_stream() -> None:
        source = spark.readStream.format("dlog").options(**at, log="versions", startingId="earliest").load()
        run(source.writeStream.format("noop"))

    def write_stream() -> None:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        values = source.selectExpr("cast(value as string) as value")
        run(values.writeStream.format("dlog").options(**at, log="versions-copy").trigger(once=True))

    works_or_says(write, (4, 1), "DLOG_NOT_SUPPORTED: writing to a log needs PySpark 4.1 or newer")
    works_or_says(read_stream, (4, 2), "DLOG_NOT_SUPPORTED: reading a log as a stream needs PySpark 4.2 or")
    works_or_says(write_stream, (4, 1), "DLOG_NOT_SUPPORTED: writing to a log needs PySpark 4.1 or newer")
    copied = [m.payload for m in on_cluster(lambda client: read_all(client, "versions-copy"))]
    assert copied == ([b"0", b"1", b"0"] if VERSION >= (4, 1) else [])


def works_or_says(attempt: Callable[[], object], since: tuple[int, int], sentence: str) -> None:
    if since <= VERSION:
        attempt()
    else:
        assert sentence in first_said(attempt)
