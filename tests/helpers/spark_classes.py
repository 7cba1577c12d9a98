"""Makes the archive of Spark's classes with which the JVMs of the tests start (class data sharing of the JDK).

    python -m tests.helpers.spark_classes FILE

Reading and checking some 15,000 classes of Spark is half of what a JVM does that lives for seconds; an archive has them
as they are in memory. A session that does what the tests do ends, and its JVM writes what it has loaded. Without Java
nothing is made, and a JVM that is not the one of the archive, or has other jars, does without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import dlog
from dlog.demo.spark_needs import require_spark
from ledger.errors import ConfigurationError
from tests.helpers.spark import QUICK, QUICK_FLAGS

LIMIT_S = 600


def make(file: Path) -> None:
    """On return the archive is there, or a sentence on stderr says why not."""
    try:
        require_spark()
    except ConfigurationError as error:
        print(f"spark-classes: {error}; Spark's tests are skipped", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(dir=file.parent) as found:
        made = Path(found) / "classes.jsa"
        # Its JVM ends after the program, and has the pipes until then.
        ended = subprocess.run(
            [sys.executable, "-m", "tests.helpers.spark_classes", "--session", str(made)],
            check=False, timeout=LIMIT_S, capture_output=True, text=True,
        )  # fmt: skip
        if ended.returncode or not made.exists():
            print(f"spark-classes: no archive, so JVMs start slowly: {ended.stderr[-2000:]}", file=sys.stderr)
            return
        made.replace(file)


def run_session(archive: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    with tempfile.TemporaryDirectory() as home, dlog.standalone(Path(home) / "cluster", bookies=3) as cluster:
        with dlog.connect(cluster.uri) as client:
            client.create("copies")
            with client.open_writer("orders", create=True) as writer:
                writer.append(b"0")
        spark = (
            SparkSession.builder.master("local[2]")
            .config(map=QUICK)
            .config("spark.local.dir", home)
            .config("spark.sql.warehouse.dir", f"{home}/warehouse")
            .config("spark.driver.extraJavaOptions", f"{QUICK_FLAGS} -XX:ArchiveClassesAtExit={archive}")
            .getOrCreate()
        )
        orders = {"metadata": cluster.uri, "log": "orders", "startingId": "earliest"}
        copies = {"metadata": cluster.uri, "log": "copies"}
        rows = spark.read.format("dlog").options(**orders).load()
        rows.orderBy("message_id").groupBy("log").count().collect()
        rows.select("value").write.format("dlog").options(**copies).mode("append").save()
        following = spark.readStream.format("dlog").options(**orders).load()
        for number, writing in enumerate(
            (
                following.select("value").writeStream.format("dlog").options(**copies),
                following.writeStream.format("parquet").option("path", f"{home}/rows"),
            )
        ):
            query = (
                writing.option("checkpointLocation", f"{home}/{number}").trigger(availableNow=True).start()
            )
            query.awaitTermination()
        spark.read.parquet(f"{home}/rows").collect()
        spark.stop()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--session", archive]:
            run_session(archive)
        case [file]:
            make(Path(file).absolute())
        case _:
            raise SystemExit(__doc__)
