"""Spark query of the demo, run as its own process: mean departure delay by carrier, as one JSON line.

    python -m dlog.demo.spark_query URI LOG DIRECTORY

Spark's temporary files are in DIRECTORY.
"""

from __future__ import annotations

import os
import sys

from dlog.demo.events import tell


def main(uri: str, log: str, directory: str) -> None:
    """Run the query on two threads and print the result."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("dlog demo")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", directory)
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .config("spark.sql.shuffle.partitions", "1")
        # For one short query compilation costs more than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .getOrCreate()
    )
    flights = spark.read.format("dlog").option("metadata", uri).option("log", log).load()
    delay = sql.expr("try_cast(element_at(split(decode(value, 'UTF-8'), ','), 6) as double)")
    rows = (
        flights.groupBy(sql.expr("decode(key, 'UTF-8')").alias("carrier"))
        .agg(sql.avg(delay).alias("mean"), sql.count("*").alias("flights"))
        .collect()
    )
    tell(
        "means",
        mean={row.carrier: row["mean"] for row in rows},
        flights=sum(row.flights for row in rows),
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
