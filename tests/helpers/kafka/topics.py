"""Topics of a broker, made with the Kafka client that Spark's source has in its JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A producer that is idempotent may wait forever if it writes to a partition before the broker has its leader.
_WRITE = {"kafka.enable.idempotence": "false"}


class Topics:
    """`broker` is HOST:PORT. The session must have been started with `spark.jars` of Spark's Kafka source."""

    def __init__(self, spark: SparkSession, broker: str) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._broker = broker

    def create(self, topic: str, partitions: int) -> None:
        described = self._jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1)
        self._run(lambda admin: admin.createTopics(self._list(described)).all().get())

    def delete(self, topic: str) -> None:
        self._run(lambda admin: admin.deleteTopics(self._list(topic)).all().get())

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages before the offset."""
        before = self._jvm.java.util.HashMap()
        at = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        before.put(at, self._before(offset))
        self._run(lambda admin: admin.deleteRecords(before).all().get())

    def append(self, topic: str, rows: DataFrame, **options: str) -> None:
        """Rows with the columns of Spark's Kafka sink: `value`, and perhaps `key`, `headers`, `partition`."""
        writer = rows.write.format("kafka").options(**_WRITE).options(**options)
        writer.option("kafka.bootstrap.servers", self._broker).option("topic", topic).save()

    def _before(self, offset: int) -> Any:
        """`RecordsToDelete.beforeOffset`, by reflection: Py4J finds only the method of an instance of that name."""
        lang = self._jvm.java.lang
        loader = lang.Thread.currentThread().getContextClassLoader()
        kind = loader.loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        types, values = self._gateway.new_array(lang.Class, 1), self._gateway.new_array(lang.Object, 1)
        types[0], values[0] = lang.Long.TYPE, offset
        return kind.getMethod("beforeOffset", types).invoke(None, values)

    def _list(self, *items: Any) -> Any:
        found = self._jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found

    def _run(self, work: Callable[[Any], object]) -> None:
        settings = self._jvm.java.util.HashMap()
        settings.put("bootstrap.servers", self._broker)
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            work(admin)
        finally:
            admin.close()
