"""Rows for Spark to write, in tasks that do what a test needs. Functions here run in Spark's workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

WAIT_S = 60.0


def numbered(spark: SparkSession, count: int, tasks: int = 2, begin: int = 0) -> DataFrame:
    """Column `value` with the texts of `count` numbers from `begin` on, in this number of tasks, rising in each."""
    return spark.range(begin, begin + count, 1, tasks).selectExpr("cast(id as string) as value")


def with_task(rows: DataFrame, at_end: Callable[[], None]) -> DataFrame:
    """The same rows; each task calls this function after its last one."""

    def passed(part: Iterator[Row]) -> Iterator[Row]:
        yield from part
        at_end()

    return rows.sparkSession.createDataFrame(rows.rdd.mapPartitions(passed), rows.schema)


def failing(rows: DataFrame, partition: int) -> DataFrame:
    """The same rows; the task of this partition fails after its last one."""

    def fail() -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == partition:
            raise RuntimeError("the task is to fail")

    return with_task(rows, fail)


def held(rows: DataFrame, gate: Path) -> DataFrame:
    """The same rows; each task makes the file `gate`.started and waits until `gate` is there."""
    path = str(gate)

    def wait() -> None:
        Path(f"{path}.started").touch()
        wait_for(Path(path))

    return with_task(rows, wait)


def deposed(rows: DataFrame, uri: str, log: str) -> DataFrame:
    """The same rows; each task opens an ordinary writer of the log after its last one."""

    def depose() -> None:
        import dlog

        with dlog.connect(uri, config=dlog.LogConfig(owner_name="the other one")) as client:
            client.open_writer(log).close()

    return with_task(rows, depose)


def wait_for(path: Path, otherwise: Callable[[], Any] = lambda: None) -> None:
    """Return once the file is there. `otherwise` is called now and then, and may raise."""
    give_up_at = time.monotonic() + WAIT_S
    while not path.exists():
        otherwise()
        assert time.monotonic() < give_up_at, f"{path} does not appear"
        time.sleep(0.02)
