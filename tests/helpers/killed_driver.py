"""A Spark driver that copies one log into another and is killed with kill -9 at the sink's commit: before or after it.

    python -m tests.helpers.killed_driver URI SOURCE TARGET CHECKPOINT before|after

The sink commits in a process that Spark starts, which kills the driver, and so all of Spark's processes end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.helpers.spark import QUICK, QUICK_JAVA


def main(uri: str, source: str, target: str, checkpoint: str, where: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map=QUICK)
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.local.dir", str(Path(checkpoint).parent))
        .getOrCreate()
    )
    spark.dataSource.register(killing(os.getpid(), where))
    rows = (
        spark.readStream.format("dlog")
        .options(metadata=uri, log=source, startingId="earliest")
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("killing").options(metadata=uri, log=target, writerId="copy")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def killing(driver: int, where: str) -> type:
    """The data source of dlog, whose commit kills the driver."""
    from pyspark.sql.datasource import WriterCommitMessage

    from spark_connector.sink.writers import DlogStreamWriter
    from spark_connector.source import DlogDataSource

    def end() -> None:
        os.kill(driver, signal.SIGKILL)
        signal.pause()

    class Writer(DlogStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            if where == "before":
                end()
            super().commit(messages, batchId)
            end()

    class Killing(DlogDataSource):
        @classmethod
        def name(cls) -> str:
            return "killing"

        def streamWriter(self, schema, overwrite):  # type: ignore[no-untyped-def]  # as its base
            made = super().streamWriter(schema, overwrite)
            return Writer(made._options, made._epoch)

    return Killing


if __name__ == "__main__":
    main(*sys.argv[1:])
