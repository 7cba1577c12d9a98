"""How fast does Spark write a log, compared with an ordinary writer, and with Spark writing nothing at all?

Messages of 100 bytes without keys, three bookies, E3 Qw3 Qa2, on one machine with a session of `local[2]`. The
contenders take turns, round by round, on a fresh cluster: the sink, `exactlyOnce=false` with one task, and the SDK's
writer in batches of 500, to which both are compared; it has no rows to fetch from a JVM. Spark's own sink `noop` makes
the same rows and drops them.

A batch of one row shows what a micro-batch costs in addition to its rows.

Needs Java: PySpark starts a JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.load import log_load
from benchmarks.load.log_load import MESSAGE_BYTES
from benchmarks.machine import settle_disk
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.spark.session import noop, spark_session, timed
from dlog.client import connect
from tests.helpers.processes.cluster import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS = 2
_TARGET = 800_000.0
_ROWS, _ONE = f"rows of {MESSAGE_BYTES} B", "a batch of one row"
_SINK, _PLAIN, _NOOP, _SDK = "Spark sink", "Spark sink, exactlyOnce=false", "Spark, noop", "SDK's writer"


async def run(options: Options) -> Report:
    report = Report("spark_sink", "How fast does Spark write a log?")
    runs = Runs()
    with spark_session(_TASKS) as spark:
        rows, few = _rows(spark, options.sink_rows, _TASKS), _rows(spark, options.sink_rows // 4, 1)
        one = _rows(spark, 1, 1)
        noop(rows)  # a JVM is slow in its first seconds
        for _ in range(options.rounds):
            settle_disk()
            async with running_cluster(options.directory) as cluster, connect(cluster.uri) as client:
                await client.create("bench")
                save = _saver(cluster.uri)
                save(one)  # starts Spark's Python workers
                runs.add(_ROWS, _NOOP, options.sink_rows / timed(partial(noop, rows)))
                runs.add(_ROWS, _SINK, options.sink_rows / timed(partial(save, rows)))
                plain = _saver(cluster.uri, exactlyOnce="false")
                runs.add(_ROWS, _PLAIN, options.sink_rows // 4 / timed(partial(plain, few)))
                for _batch in range(options.one_row_batches):
                    runs.add(_ONE, _NOOP, timed(partial(noop, one)) * 1e3)
                    runs.add(_ONE, _SINK, timed(partial(save, one)) * 1e3)
                async with client.open_writer("bench") as writer:
                    found = await log_load.measure_append_many(
                        writer, warm_up_s=options.warm_up_s, seconds=options.seconds
                    )
                runs.add(_ROWS, _SDK, found)
    _report(report, runs)
    return report


def _report(report: Report, runs: Runs) -> None:
    writer = runs.median(_ROWS, _SDK)
    report.add(runs.row(_ROWS, _NOOP, "rows/s"))
    report.add(runs.row(_ROWS, _SDK, "rows/s"))
    report.add(runs.row(_ROWS, _SINK, "rows/s", floor=writer, target=_TARGET))
    report.add(runs.row(_ROWS, _PLAIN, "rows/s", floor=writer))
    report.add(runs.row(_ONE, _NOOP, "ms"))
    report.add(runs.row(_ONE, _SINK, "ms", floor=runs.median(_ONE, _NOOP)))


def _rows(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.range(0, count, 1, tasks).select(f.lit(bytes(MESSAGE_BYTES)).alias("value"))


def _saver(uri: str, **options: str) -> Callable[[DataFrame], None]:
    """Writes a DataFrame to the log of the benchmark."""

    def save(rows: DataFrame) -> None:
        rows.write.format("dlog").options(metadata=uri, log="bench", **options).mode("append").save()

    return save
