"""What the benchmarks of Spark share. Needs Java: PySpark starts a JVM."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_HEAP = "3g"
"""The default of 1 GiB does not hold what Kafka's consumers have fetched in addition to a scan of Parquet."""


@contextmanager
def spark_session(cores: int, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session of `local[cores]`. The next one has the same JVM, with the jars that the first one names."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.memory", _HEAP)
    session = builder.config(map=dict(settings or {})).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def noop(rows: DataFrame) -> None:
    """Make all rows and drop them."""
    rows.write.format("noop").mode("append").save()


def timed(work: Callable[[], None]) -> float:
    """Seconds. On the main thread: Spark knows its session on no other, and the client has nothing to do."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
