"""Writing a DataFrame to a log, on a real Spark session: whole, once, exact, and what is wrong with a query."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from dlog.client import LogClient
from dlog.errors import WriterDeposedError
from dlog.local.embedded import Standalone
from dlog.local.signalling import pause_process
from dlog.model import Message
from spark_connector.errors import SparkSourceError
from tests.helpers.log.producer import read_all
from tests.helpers.log.sink import ledgers_made_for
from tests.helpers.processes.zookeeper import ZooKeeperProcess
from tests.helpers.sink_rows import deposed, failing, held, numbered, wait_for
from tests.helpers.spark import first_said, needs_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.timeout(240),
    needs_pyspark("4.1", "logs are written"),
]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


class Log:
    """One log, written by Spark and looked at with the SDK."""

    def __init__(self, cluster: Standalone, on_cluster: OnCluster, name: str) -> None:
        self.uri = cluster.uri
        self.name = name
        self._on_cluster = on_cluster
        on_cluster(lambda client: client.create(name))

    def write(self, rows: DataFrame, **options: object) -> None:
        write = rows.write.format("dlog").option("metadata", self.uri).option("log", self.name)
        write.options(**options).mode("append").save()  # type: ignore[arg-type]  # Spark turns them into text

    def messages(self) -> list[Message]:
        found = self._on_cluster(lambda client: read_all(client, self.name))
        assert isinstance(found, list)
        return found

    def payloads(self) -> list[bytes | None]:
        return [message.payload for message in self.messages()]

    def record(self) -> Any:
        return self._on_cluster(lambda client: client.describe(self.name)).record

    def sweep(self) -> None:
        """As `dlog gc` a week later."""
        self._on_cluster(lambda client: client.admin.sweep(age_s=-1, staging_age_s=-1))

    def ledgers(self) -> set[int]:
        """Of this log, listed or not."""
        found = self._on_cluster(lambda client: ledgers_made_for(client, self.name))
        assert isinstance(found, set)
        return found


@pytest.fixture
def log(cluster: Standalone, on_cluster: OnCluster, request: pytest.FixtureRequest) -> Log:
    return Log(cluster, on_cluster, request.node.originalname[:200])


def texts(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


def test_rows_come_back_exactly_and_in_the_order_of_each_task(spark: SparkSession, log: Log) -> None:
    """25,000 rows fill several Arrow batches and entries of each task."""
    log.write(numbered(spark, 50_000))
    found = [int(payload) for payload in log.payloads() if payload is not None]
    assert sorted(found) == list(range(50_000))
    low = [number for number in found if number < 25_000]
    assert low == list(range(25_000)), "the first task's rows in their order"
    assert [number for number in found if number >= 25_000] == list(range(25_000, 50_000))
    assert sum(one.seal.message_count for one in log.record().ledgers) == 50_000
    read = spark.read.format("dlog").option("metadata", log.uri).option("log", log.name).load()
    assert [row.value for row in read.orderBy("message_id").collect()] == log.payloads()


def test_keys_headers_and_tombstones_are_kept(spark: SparkSession, log: Log) -> None:
    rows = [
        (b"tea", b"1", [("a", b"x"), ("a", b""), ("ü", b"\xff")]),
        (None, b"", []),
        (b"", None, None),
        (b"\x00" * 300, b"y" * 2_000_000, [("k", b"v" * 70_000)]),
    ]
    columns = "value binary, key binary, headers array<struct<key:string,value:binary>>"
    log.write(spark.createDataFrame(rows, columns).coalesce(1))
    found = [(m.payload, m.key, [(key.decode(), value) for key, value in m.headers]) for m in log.messages()]
    assert found == [(value, key, list(headers or [])) for value, key, headers in rows]
    [time] = {message.append_time_us for message in log.messages()}
    assert time <= max(one.created_us for one in log.record().ledgers)


def test_a_log_can_be_copied(spark: SparkSession, log: Log, numbers: list[Message]) -> None:
    source = (
        spark.read.format("dlog")
        .option("metadata", log.uri)
        .option("log", "numbers")
        .option("includeHeaders", "true")
        .load()
    )
    log.write(source.orderBy("message_id").select("key", "value", "headers").coalesce(1))
    assert [m[1:4] for m in log.messages()] == [m[1:4] for m in numbers]


def test_a_numbered_batch_is_published_once(spark: SparkSession, log: Log) -> None:
    """The replay does not even take the log over: whoever writes it goes on."""
    log.write(numbered(spark, 10), writerId="nightly", batchId=7)
    epoch = log.record().epoch
    log.write(numbered(spark, 10), writerId="nightly", batchId=7)
    log.write(numbered(spark, 10), writerId="nightly", batchId=3)
    assert sorted(log.payloads(), key=repr) == texts(0, 10)
    assert log.record().epoch == epoch
    log.write(numbered(spark, 5, begin=10), writerId="nightly", batchId=8)
    log.write(numbered(spark, 5, begin=15), writerId="other", batchId=7)
    assert len(log.payloads()) == 20
    assert {(mark.writer_id, mark.batch) for mark in log.record().sinks} == {("nightly", 8), ("other", 7)}


def test_a_batch_that_is_not_numbered_is_written_whenever_it_is(spark: SparkSession, log: Log) -> None:
    for _ in range(2):
        log.write(numbered(spark, 3, tasks=1))
    assert log.payloads() == texts(0, 3) * 2
    assert log.record().sinks == ()


def test_a_task_that_fails_publishes_nothing_and_what_is_left_is_swept(spark: SparkSession, log: Log) -> None:
    """Spark kills the other task wherever it is: its ledger is left behind, or not."""
    log.write(numbered(spark, 3, tasks=1))
    with pytest.raises(PySparkException, match="the task is to fail"):
        log.write(failing(numbered(spark, 1000), partition=1))
    assert log.payloads() == texts(0, 3)
    log.sweep()
    assert log.ledgers() == {one.ledger_id for one in log.record().ledgers}
    assert log.payloads() == texts(0, 3)


def test_an_empty_dataframe_changes_nothing(spark: SparkSession, log: Log) -> None:
    log.write(numbered(spark, 0))
    assert log.payloads() == []
    assert log.record().ledgers == ()


def test_the_sink_and_an_ordinary_writer_depose_each_other_by_name(
    spark: SparkSession, log: Log, on_cluster: OnCluster
) -> None:
    async def write(client: LogClient) -> WriterDeposedError:
        async with client.open_writer(log.name) as writer:
            await writer.append(b"mine")
            log.write(numbered(spark, 1, tasks=1), writerId="nightly", batchId=0)
            await writer.over
            with pytest.raises(WriterDeposedError) as caught:
                await writer.append(b"lost")
            return caught.value

    error = on_cluster(write)
    assert "Spark sink nightly" in str(error)
    said = first_said(lambda: log.write(deposed(numbered(spark, 10, tasks=1), log.uri, log.name)))
    assert "DLOG_OWNERSHIP_LOST: log default/" in said
    assert "was taken over by the other one" in said
    assert log.payloads() == [b"mine", b"0"]
    assert log.ledgers() <= {one.ledger_id for one in log.record().ledgers}


def test_a_zombie_driver_is_refused(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """Its tasks are done only after another driver has run the same batch."""
    gate = tmp_path / "gate"
    said: list[str] = []

    def run() -> None:
        rows = held(numbered(spark, 5, tasks=1), gate)
        said.append(first_said(lambda: log.write(rows)))

    zombie = threading.Thread(target=run)
    zombie.start()
    try:
        wait_for(Path(f"{gate}.started"))
        log.write(numbered(spark, 5, tasks=1))
    finally:
        gate.touch()
        zombie.join()
    assert "DLOG_OWNERSHIP_LOST" in said[0]
    assert log.payloads() == texts(0, 5)
    assert log.ledgers() == {one.ledger_id for one in log.record().ledgers}


def rows_of(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def test_an_abort_after_a_commit_that_happened_deletes_nothing(spark: SparkSession, log: Log) -> None:
    """Spark aborts with the same messages if the commit raises, whatever it did; or a task's message is missing."""
    # PySpark 4.0 cannot import it, and skips this file.
    from spark_connector.sink.writers import batch_writer

    schema = spark.createDataFrame([], "value binary").schema
    writer = batch_writer({"metadata": log.uri, "log": log.name}, schema, False)
    messages = [writer.write(rows_of(b"1", b"2")), writer.write(iter(())), writer.write(rows_of(b"3"))]
    assert len(log.ledgers()) == 2
    writer.commit(messages)
    writer.abort([*messages, None])
    writer.commit(messages)
    assert sorted(log.payloads(), key=repr) == [b"1", b"2", b"3"]
    late = batch_writer({"metadata": log.uri, "log": log.name}, schema, False)
    unpublished = [late.write(rows_of(b"4")), None]
    late.abort(unpublished)
    assert len(log.ledgers()) == 2
    with pytest.raises(SparkSourceError, match=r"DLOG_UNAVAILABLE: log .* accepts only ledgers above"):
        late.commit(unpublished[:1])


def test_exactly_once_false_is_an_ordinary_writer_in_one_task(spark: SparkSession, log: Log) -> None:
    log.write(numbered(spark, 20_000, tasks=1), exactlyOnce="false")
    assert log.payloads() == texts(0, 20_000)
    log.write(numbered(spark, 0, tasks=2), exactlyOnce="false")
    said = first_said(lambda: log.write(numbered(spark, 10, tasks=2), exactlyOnce="false"))
    assert "exactlyOnce=false writes with one task" in said or "DLOG_OWNERSHIP_LOST" in said
    headers = "array(struct('a' as key, cast('b' as binary) as value)) as headers"
    log.write(spark.range(0, 1, 1, 1).selectExpr("'v' as value", "'k' as key", headers), exactlyOnce="false")
    last = log.messages()[-1]
    assert (last.payload, last.key, last.headers) == (b"v", b"k", ((b"a", b"b"),))


def test_what_is_wrong_is_said_first_and_changes_nothing(spark: SparkSession, log: Log) -> None:
    rows = numbered(spark, 3, tasks=1)

    def said(frame: DataFrame = rows, **options: object) -> str:
        return first_said(lambda: log.write(frame, **options))

    assert "DLOG_BAD_OPTION: option 'startingid' is unknown, or is not for writing" in said(
        startingId="latest"
    )
    assert "DLOG_BAD_OPTION: options 'writerId' and 'batchId' belong together" in said(writerId="x")
    assert "DLOG_BAD_OPTION: column 'value' is bigint" in said(spark.range(1).selectExpr("id as value"))
    assert "DLOG_BAD_OPTION: column 'id' is unknown" in said(spark.range(1))
    assert "DLOG_NOT_FOUND: log default/nowhere does not exist" in said(log="nowhere")
    assert "DLOG_NOT_FOUND: log default/nowhere does not exist" in said(log="nowhere", exactlyOnce="false")
    assert "DLOG_UNAVAILABLE" in said(metadata="sqlite:////nowhere/at/all.db")
    overwritten = rows.write.format("dlog").options(metadata=log.uri, log=log.name).mode("overwrite")
    assert "DLOG_NOT_SUPPORTED: a log cannot be overwritten" in first_said(overwritten.save)
    broken = spark.sql(
        "select 'x' as value, array(named_struct('key', 'k', 'value', cast(null as binary))) as headers"
    )
    assert "DLOG_BAD_ROW: a row has a header" in said(broken)
    large = spark.sql("select repeat('x', 5242880) as value")
    assert "DLOG_BAD_ROW: a row has 5242889 bytes" in said(large)
    assert log.payloads() == []
    assert log.ledgers() == set()


def test_a_bookie_that_is_killed_costs_nothing_and_a_dead_cluster_ends_in_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Three bookies of a cluster of its own: one is killed while tasks write, then all of them are."""
    import dlog

    with (
        dlog.standalone(tmp_path / "c", bookies=3, restart=False) as cluster,
        dlog.connect(cluster.uri) as client,
    ):
        client.create("orders")
        gate = tmp_path / "gate"

        def kill() -> None:
            wait_for(Path(f"{gate}.started"))
            cluster.kill(0)
            gate.touch()

        killing = threading.Thread(target=kill)
        killing.start()
        save(held(numbered(spark, 20_000, tasks=1), gate), cluster.uri, "orders")
        killing.join()
        save(numbered(spark, 10, tasks=1), cluster.uri, "orders")
        with client.reader("orders", until="latest") as reader:
            assert [message.payload for message in reader] == [*texts(0, 20_000), *texts(0, 10)]
        cluster.kill(1)
        hung = next(bookie.process_id for bookie in cluster.bookies if bookie.process_id is not None)
        pause_process(hung)
        try:
            started = time.monotonic()
            said = first_said(
                lambda: save(numbered(spark, 10, tasks=1), cluster.uri, "orders", writeTimeoutMs=3000)
            )
            assert "DLOG_UNAVAILABLE" in said
            assert time.monotonic() - started < 45, "three seconds for a step, and some to clean up"
        finally:
            os.kill(hung, signal.SIGCONT)
        cluster.kill(2)
        said = first_said(
            lambda: save(numbered(spark, 10, tasks=1), cluster.uri, "orders", writeTimeoutMs=5000)
        )
        assert "DLOG_UNAVAILABLE" in said


def save(rows: DataFrame, uri: str, log: str, **options: object) -> None:
    rows.write.format("dlog").options(metadata=uri, log=log, **options).mode("append").save()


@pytest.mark.slow
def test_it_works_on_zookeeper(spark: SparkSession, zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    import dlog

    uri = f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}"
    with (
        dlog.standalone(tmp_path / "c", bookies=3, metadata=uri) as cluster,
        dlog.connect(cluster.uri) as client,
    ):
        client.create("orders")
        for _ in range(2):
            save(numbered(spark, 1000), cluster.uri, "orders", writerId="w", batchId=1)
        save(numbered(spark, 500, begin=1000), cluster.uri, "orders", writerId="w", batchId=2)
        with client.reader("orders", until="latest") as reader:
            found = [int(message.payload or b"") for message in reader]
        assert sorted(found) == list(range(1500))
