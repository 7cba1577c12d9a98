"""Spark in the demo, run as its own process. Reports its events as JSON lines.

    python -m dlog.demo.spark_process URI LOG LIVE DELAYS DIRECTORY

A stream follows log LIVE and writes the departure delay of each flight to log DELAYS, exactly once. At a line on
standard input it ends, and a query over LOG follows: the mean delay by carrier. At the end of standard input, which is
the end of the demo, the process ends. Spark's temporary files and the stream's checkpoint are in DIRECTORY.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from dlog.demo.events import tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_DELAY = "element_at(split(decode(value, 'UTF-8'), ','), 6)"
_LOOK_S = 1
"""How often the process looks whether the stream has failed."""


def main(uri: str, log: str, live: str, delays: str, directory: str) -> None:
    """Stream until a line comes, then run the query and report its result."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = _session(directory)
    query = _copy_delays(spark, uri, live, delays, directory)
    tell("streaming")
    while not select.select([sys.stdin], [], [], 0)[0]:
        query.awaitTermination(_LOOK_S)  # raises if it has failed
    asked = sys.stdin.readline()
    query.stop()
    if asked:
        _tell_means(spark.read.format("dlog").options(metadata=uri, log=log).load())
    spark.stop()


def _session(directory: str) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("dlog demo")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", directory)
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .config("spark.sql.shuffle.partitions", "1")
        # For short queries compilation costs more than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
    )
    return builder.getOrCreate()


def _copy_delays(spark: SparkSession, uri: str, live: str, delays: str, directory: str) -> StreamingQuery:
    flights = spark.readStream.format("dlog").options(metadata=uri, log=live, startingId="earliest").load()
    found = flights.selectExpr("key", f"{_DELAY} AS value").coalesce(1)  # one task: in the order of the log
    writing = found.writeStream.format("dlog").options(metadata=uri, log=delays)
    return (
        writing.option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(processingTime="200 milliseconds")
        .start()
    )


def _tell_means(flights: DataFrame) -> None:
    from pyspark.sql import functions as sql

    rows = (
        flights.groupBy(sql.expr("decode(key, 'UTF-8')").alias("carrier"))
        .agg(
            sql.avg(sql.expr(f"try_cast({_DELAY} as double)")).alias("mean"), sql.count("*").alias("flights")
        )
        .collect()
    )
    tell(
        "means",
        mean={row.carrier: row["mean"] for row in rows},
        flights=sum(row.flights for row in rows),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
