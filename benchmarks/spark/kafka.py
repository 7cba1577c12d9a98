"""The messages of a log in a topic of a Kafka broker, as Spark's own Kafka source reads them.

Needs the jars that `tools/fetch-java-libs --kafka` fetches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.options import MIB, Options
from tests.helpers.kafka.broker import running_broker
from tests.helpers.kafka.libs import KafkaLibs, find_kafka
from tests.helpers.kafka.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOPIC = "scanned"
_PRODUCER = {"kafka.batch.size": "65536", "kafka.linger.ms": "50", "kafka.compression.type": "none"}
"""Batches of about the size of the log's entries, 500 messages."""

TUNED = {"kafka.max.poll.records": "50000", "kafka.max.partition.fetch.bytes": str(4 * MIB)}
"""Of a read of much: after each poll Spark's source asks the broker for the ends of the partition, twice."""


@contextmanager
def kafka_peer(options: Options) -> Iterator[KafkaPeer | None]:
    """A broker without topics while the benchmark runs; None unless the options ask for Kafka."""
    if not options.kafka:
        yield None
        return
    libs = find_kafka()
    with running_broker(libs, options.directory) as broker:
        yield KafkaPeer(libs, broker)


class KafkaPeer:
    """`settings` are those of the sessions that read from the broker."""

    def __init__(self, libs: KafkaLibs, broker: str) -> None:
        self.versions = libs.versions
        self.settings: Mapping[str, str] = {"spark.jars": libs.spark_jars}
        self._broker = broker
        self._is_filled = False

    def fill(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Copy `value` of the log's rows, unless an earlier session did; entry after entry to the next partition."""
        from pyspark.sql import functions as f

        if self._is_filled:
            return
        topics = Topics(spark, self._broker)
        topics.create(_TOPIC, partitions)
        partition = (f.col("entry_id") % partitions).cast("int").alias("partition")
        topics.append(_TOPIC, rows.select("value", partition), **_PRODUCER)
        self._is_filled = True

    def rows(self, spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
        reader = spark.read.format("kafka").options(**settings)
        reader = reader.option("kafka.bootstrap.servers", self._broker)
        return reader.option("subscribe", _TOPIC).load()
