"""The query: copies log `source` into log `target` in two tasks, until it is killed, or once with `once`.

    python -m tests.helpers.spark_restarts.driver URI DIRECTORY ROWS [once]

ROWS is the number of messages of a micro-batch, at most.
"""

from __future__ import annotations

import os
import sys

from tests.helpers.spark import QUICK, QUICK_JAVA


def main(uri: str, directory: str, rows: str, *once: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config(map=QUICK)
        .config("spark.local.dir", directory)
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .getOrCreate()
    )
    reading = {"startingId": "earliest", "maxRecordsPerTrigger": rows, "minPartitions": "2"}
    source = spark.readStream.format("dlog").options(metadata=uri, log="source", **reading).load()
    writer = source.select("key", "value").writeStream.format("dlog").options(metadata=uri, log="target")
    writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
    query = (writer.trigger(availableNow=True) if once else writer).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
