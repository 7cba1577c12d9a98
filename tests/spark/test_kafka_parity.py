"""Where this source does what Spark's Kafka source does, and where it does something else on purpose: docs/spark.md.

Each test asks both the same question in one session. The suite leaves it out, because it needs a Kafka broker:
`make spark-kafka` fetches it and runs this file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from tests.helpers.kafka.broker import running_broker
from tests.helpers.kafka.libs import KafkaLibs, find_kafka
from tests.helpers.kafka.topics import Topics
from tests.helpers.log.appended import appended
from tests.helpers.spark import QUICK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default::ResourceWarning")]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]
_SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="module")
def libs() -> KafkaLibs:
    return find_kafka()


@pytest.fixture(scope="module")
def broker(libs: KafkaLibs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(libs, tmp_path_factory.mktemp("broker"), jvm=_SMALL_JVM) as address:
        yield address


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a session that has Kafka's source, in place of that of the other tests."""
    return {**QUICK, "spark.jars": find_kafka().spark_jars}


class Both:
    """The same messages in a log and in a topic of one partition, where message n has offset n."""

    def __init__(
        self, spark: SparkSession, uri: str, on_cluster: OnCluster, broker: str, directory: Path
    ) -> None:
        self._spark = spark
        self._uri = uri
        self._on_cluster = on_cluster
        self._broker = broker
        self._directory = directory
        self.topics = Topics(spark, broker)
        self.ids: dict[str, list[MessageId]] = {}

    def append(self, log: str, *values: bytes) -> None:
        """To both; they are created if need be."""
        if log not in self.ids:
            self.topics.create(log, 1)
        self.ids.setdefault(log, []).extend(self._on_cluster(appended(log, *values, create=True)))
        self.topics.append(
            log, self._spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
        )

    def trim(self, log: str, number: int) -> None:
        """Delete the messages before this one."""
        self._on_cluster(lambda client: client.shrink(log, self.ids[log][number]))
        self.topics.trim(log, 0, number)

    def delete(self, log: str) -> None:
        self._on_cluster(lambda client: client.delete(log))
        self.topics.delete(log)
        del self.ids[log]

    def of_log(self, options: dict[str, str], *, stream: bool = False) -> DataFrame:
        reader = self._spark.readStream if stream else self._spark.read
        return reader.format("dlog").options(metadata=self._uri, **options).load()

    def of_topic(self, options: dict[str, str], *, stream: bool = False) -> DataFrame:
        reader = self._spark.readStream if stream else self._spark.read
        return reader.format("kafka").options(**{"kafka.bootstrap.servers": self._broker}, **options).load()

    def queries(self, name: str, of_log: dict[str, str], of_topic: dict[str, str]) -> tuple[Query, Query]:
        """A stream of each, with a checkpoint of its own."""
        return (
            Query(lambda more: self.of_log({**of_log, **more}, stream=True), self._directory / f"{name}-log"),
            Query(
                lambda more: self.of_topic({**of_topic, **more}, stream=True),
                self._directory / f"{name}-topic",
            ),
        )


class Query:
    """A query that copies values into Parquet files, and can be started again."""

    def __init__(self, rows: Callable[[dict[str, str]], DataFrame], home: Path) -> None:
        self._rows = rows
        self._home = home
        self.batches: list[int] = []
        """Rows of the micro-batches that had any."""

    def start(self, options: dict[str, str], **trigger: Any) -> StreamingQuery:
        writer = self._rows(options).select("value").writeStream.format("parquet")
        writer = writer.option("path", str(self._home / "rows"))
        writer = writer.option("checkpointLocation", str(self._home / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self, **options: str) -> None:
        """Read what is there now."""
        query = self.start(options, availableNow=True)
        assert query.awaitTermination(120)
        self.batches += [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]

    def fails(self, **options: str) -> bool:
        query = self.start(options, availableNow=True)
        try:
            return not query.awaitTermination(120)
        except PySparkException:
            return True

    @contextmanager
    def running(self) -> Iterator[Callable[[int], list[int]]]:
        """A query without an end; what is yielded waits until N micro-batches had rows, returns how many."""
        query = self.start({})

        def rows_of(batches: int) -> list[int]:
            give_up_at = time.monotonic() + 120
            while True:
                found = [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]
                if len(found) >= batches:
                    return found
                assert query.isActive and time.monotonic() < give_up_at, found
                time.sleep(0.05)

        try:
            yield rows_of
        finally:
            query.stop()

    def values(self, spark: SparkSession) -> list[bytes]:
        return values(spark.read.schema("value binary").parquet(str(self._home / "rows")))


@pytest.fixture(scope="module")
def both(
    spark: SparkSession,
    cluster: Standalone,
    on_cluster: OnCluster,
    broker: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Both:
    found = Both(spark, cluster.uri, on_cluster, broker, tmp_path_factory.mktemp("queries"))
    found.append("numbers", *NUMBERS)
    return found


NUMBERS = [b"%03d" % number for number in range(100)]


def values(rows: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in rows.select("value").collect())


def fails(work: Callable[[], object]) -> bool:
    try:
        work()
    except PySparkException:
        return True
    return False


def offsets(topic: str, offset: int) -> str:
    return json.dumps({topic: {"0": offset}})


# ---- batches


def test_a_batch_reads_from_the_earliest_to_the_latest(both: Both) -> None:
    assert (
        values(both.of_log({"log": "numbers"})) == values(both.of_topic({"subscribe": "numbers"})) == NUMBERS
    )


def test_a_start_is_inclusive_and_an_end_exclusive(both: Both) -> None:
    ids = both.ids["numbers"]
    of_log = both.of_log({"log": "numbers", "startingId": str(ids[20]), "endingId": str(ids[50])})
    bounds = {"startingOffsets": offsets("numbers", 20), "endingOffsets": offsets("numbers", 50)}
    of_topic = both.of_topic({"subscribe": "numbers", **bounds})
    assert values(of_log) == values(of_topic) == NUMBERS[20:50]


def test_a_starting_time_is_that_of_the_first_message_at_or_after_it(both: Both) -> None:
    """And an ending time that of the first one that is not read. A log's times are those of appends."""
    [of_log] = [row.publish_time for row in both.of_log({"log": "numbers"}).where("value = '040'").collect()]
    [of_topic] = [
        row.timestamp for row in both.of_topic({"subscribe": "numbers"}).where("value = '040'").collect()
    ]
    at_log, at_topic = (str(int(at.timestamp() * 1000)) for at in (of_log, of_topic))
    before, after = (
        both.of_log({"log": "numbers", "endingTimestamp": at_log}),
        both.of_log({"log": "numbers", "startingTimestamp": at_log}),
    )
    assert sorted(values(before) + values(after)) == NUMBERS
    assert NUMBERS[40] in values(after)
    before = both.of_topic({"subscribe": "numbers", "endingTimestamp": at_topic})
    after = both.of_topic({"subscribe": "numbers", "startingTimestamp": at_topic})
    assert sorted(values(before) + values(after)) == NUMBERS
    assert NUMBERS[40] in values(after)


def test_a_starting_time_after_the_last_message(both: Both) -> None:
    """Different: Kafka's source fails, unless startingOffsetsByTimestampStrategy is `latest`."""
    late = str(4102444800000)
    assert values(both.of_log({"log": "numbers", "startingTimestamp": late})) == []
    assert fails(lambda: values(both.of_topic({"subscribe": "numbers", "startingTimestamp": late})))


def test_a_batch_that_begins_with_latest(both: Both) -> None:
    """Different: Kafka's source refuses it."""
    assert values(both.of_log({"log": "numbers", "startingId": "latest"})) == []
    with pytest.raises(PySparkException, match="latest"):
        values(both.of_topic({"subscribe": "numbers", "startingOffsets": "latest"}))


def test_a_name_that_does_not_exist(both: Both) -> None:
    assert fails(lambda: values(both.of_log({"log": "no-such-log"})))
    # An error of Kafka's client, for which PySpark has no class.
    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|does not host|no-such-log"):
        values(both.of_topic({"subscribe": "no-such-log"}))


def test_a_pattern_that_matches_none(both: Both) -> None:
    assert values(both.of_log({"logsPattern": "no-such-.*"})) == []
    assert values(both.of_topic({"subscribePattern": "no-such-.*"})) == []


def test_what_is_appended_before_the_first_action_is_read(both: Both) -> None:
    """Different at the second action: a DataFrame of a log is planned once, one of a topic again and again."""
    both.append("late", b"0")
    of_log, of_topic = both.of_log({"log": "late"}), both.of_topic({"subscribe": "late"})
    both.append("late", b"1")
    assert of_log.count() == of_topic.count() == 2
    both.append("late", b"2")
    assert of_log.count() == 2
    assert of_topic.count() == 3
    assert both.of_log({"log": "late"}).count() == 3


def test_a_wanted_number_of_tasks_splits_what_is_small(both: Both) -> None:
    for wanted in (3, 8):
        of_log = both.of_log({"log": "numbers", "minPartitions": str(wanted)})
        of_topic = both.of_topic({"subscribe": "numbers", "minPartitions": str(wanted)})
        assert of_log.rdd.getNumPartitions() == of_topic.rdd.getNumPartitions() == wanted
        assert values(of_log) == values(of_topic) == NUMBERS


def test_a_limit_of_the_rows_of_a_task(both: Both) -> None:
    """Different: Kafka's source ignores it in a batch."""

    def sizes(rows: DataFrame) -> list[int]:
        return sorted(rows.rdd.glom().map(len).collect())

    assert sizes(both.of_log({"log": "numbers", "maxRecordsPerPartition": "30"})) == [25, 25, 25, 25]
    assert sizes(both.of_topic({"subscribe": "numbers", "maxRecordsPerPartition": "30"})) == [100]


def test_an_unknown_option(both: Both) -> None:
    """Different: Kafka's source ignores it."""
    assert fails(lambda: values(both.of_log({"log": "numbers", "startingOffsets": "earliest"})))
    assert values(both.of_topic({"subscribe": "numbers", "startingId": "latest"})) == NUMBERS


# ---- streams


def test_a_stream_begins_with_what_comes_after_its_start(both: Both, spark: SparkSession) -> None:
    for query in both.queries("default", {"log": "numbers"}, {"subscribe": "numbers"}):
        query.run()
        assert query.values(spark) == []
    for query in both.queries(
        "earliest",
        {"log": "numbers", "startingId": "earliest"},
        {"subscribe": "numbers", "startingOffsets": "earliest"},
    ):
        query.run()
        assert query.values(spark) == NUMBERS


def test_a_limit_of_rows_gives_micro_batches_of_that_size(both: Both, spark: SparkSession) -> None:
    queries = both.queries(
        "limit",
        {"log": "numbers", "startingId": "earliest", "maxRecordsPerTrigger": "30"},
        {"subscribe": "numbers", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"},
    )
    for query in queries:
        query.run()
        assert query.values(spark) == NUMBERS
        assert query.batches == [30, 30, 30, 10]


def test_a_least_number_of_rows_is_waited_for(both: Both) -> None:
    """Different: Kafka's source does not wait for its first micro-batch."""
    both.append("least", *NUMBERS)
    of_log, of_topic = both.queries(
        "least",
        {"log": "least", "startingId": "earliest", "minRecordsPerTrigger": "150", "maxTriggerDelay": "1h"},
        {
            "subscribe": "least",
            "startingOffsets": "earliest",
            "minOffsetsPerTrigger": "150",
            "maxTriggerDelay": "1h",
        },
    )
    with of_topic.running() as of_topic_rows:
        assert of_topic_rows(1) == [100]
        with of_log.running() as of_log_rows:
            both.append("least", *NUMBERS[:50])
            assert of_log_rows(1) == [150]
            both.append("least", *NUMBERS)
            assert of_topic_rows(2) == [100, 150]


def test_a_limit_that_several_logs_share(both: Both, spark: SparkSession) -> None:
    """Different: with less than one row for each topic, Kafka's source reads more than the limit."""
    names = [f"share-{number}" for number in range(5)]
    for name in names:
        both.append(name, *NUMBERS[:4])
    of_log, of_topic = both.queries(
        "share",
        {"logsPattern": "share-.*", "startingId": "earliest", "maxRecordsPerTrigger": "3"},
        {"subscribePattern": "share-.*", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"},
    )
    for query in (of_log, of_topic):
        query.run()
        assert query.values(spark) == sorted(5 * NUMBERS[:4])
    assert max(of_log.batches) == 3
    assert max(of_topic.batches) > 3


def test_a_name_that_comes_later_is_read_from_its_first_message(both: Both, spark: SparkSession) -> None:
    both.append("grow-a", b"a0")
    queries = both.queries(
        "grow",
        {"logsPattern": "grow-.*", "startingId": "latest"},
        {"subscribePattern": "grow-.*", "startingOffsets": "latest"},
    )
    for query in queries:
        query.run()
    both.append("grow-a", b"a1")
    both.append("grow-b", b"b0", b"b1")
    for query in queries:
        query.run()
        assert query.values(spark) == [b"a1", b"b0", b"b1"]


def test_messages_that_were_trimmed_before_they_were_read(both: Both, spark: SparkSession) -> None:
    both.append("trimmed", *NUMBERS[:10])
    queries = both.queries(
        "trimmed",
        {"log": "trimmed", "startingId": "earliest"},
        {"subscribe": "trimmed", "startingOffsets": "earliest"},
    )
    for query in queries:
        query.run()
    both.append("trimmed", *NUMBERS[10:20])
    both.trim("trimmed", 15)
    for query in queries:
        assert query.fails()
        query.run(failOnDataLoss="false")
        assert query.values(spark) == [*NUMBERS[:10], *NUMBERS[15:20]]


@pytest.mark.parametrize("more", [False, True])
def test_one_that_was_deleted_and_created_again(both: Both, spark: SparkSession, more: bool) -> None:
    """Different if the new one has more messages than were read: Kafka's source then skips the first ones."""
    name = f"reborn-{more}"
    both.append(name, *NUMBERS[:10])
    of_log, of_topic = both.queries(
        name, {"log": name, "startingId": "earliest"}, {"subscribe": name, "startingOffsets": "earliest"}
    )
    for query in (of_log, of_topic):
        query.run()
    both.delete(name)
    new = NUMBERS[50:65] if more else NUMBERS[50:55]
    both.append(name, *new)
    assert of_log.fails()
    of_log.run(failOnDataLoss="false")
    assert of_log.values(spark) == sorted([*NUMBERS[:10], *new])
    if more:
        of_topic.run()
        assert of_topic.values(spark) == sorted([*NUMBERS[:10], *new[10:]])
    else:
        assert of_topic.fails()


def test_a_stream_has_no_end(both: Both) -> None:
    last = str(both.ids["numbers"][-1])
    of_log, of_topic = both.queries(
        "end",
        {"log": "numbers", "endingId": last},
        {"subscribe": "numbers", "endingOffsets": offsets("numbers", 99)},
    )
    for query in (of_log, of_topic):
        assert fails(query.run)
