"""A Spark program that reads log `orders` and writes log `copies` twice, as a batch and as a stream.

    python -m tests.helpers.spark_round_trip URI DIRECTORY MASTER [register] [retry]

MASTER is that of a Spark session, or `connect:` and that of the server that PySpark starts for Spark Connect, or `-`
if spark-submit says it. With `register` the program registers the source, with `retry` the first attempt of each task
of the batch fails at its end. Prints JSON: what was read, and why the stream failed, if it did.
"""

from __future__ import annotations

import json
import os
import sys

# Not imported: spark-submit runs this file alone.
QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}


def main(uri: str, directory: str, master: str, *switches: str) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master.startswith("connect:"):
        builder = builder.remote(master.removeprefix("connect:"))
    elif master != "-":
        builder = builder.master(master)
    spark = builder.config(map=QUICK | {"spark.local.dir": directory}).getOrCreate()
    if "register" in switches:
        import spark_connector

        spark.dataSource.register(spark_connector.DlogDataSource)

    orders = {"metadata": uri, "log": "orders", "startingId": "earliest", "minPartitions": "2"}
    copies = {"metadata": uri, "log": "copies"}
    rows = spark.read.format("dlog").options(**orders).load()
    found = [bytes(row.value).decode() for row in rows.select("value").collect()]
    passed = rows.select("value", "key")
    if "retry" in switches:
        passed = passed.mapInPandas(failing_first, passed.schema)
    passed.write.format("dlog").options(**copies).mode("append").save()
    following = spark.readStream.format("dlog").options(**orders).load().select("value", "key")
    writing = following.writeStream.format("dlog").options(**copies)
    query = writing.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    failed = None
    try:
        query.awaitTermination()
    except PySparkException as error:
        failed = str(error)
    print(json.dumps({"found": found, "session": type(spark).__module__, "failed": failed}))
    spark.stop()


def failing_first(parts):  # type: ignore[no-untyped-def]  # of pandas, which Spark imports
    yield from parts
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt is to fail")


if __name__ == "__main__":
    main(*sys.argv[1:])
