"""Logs in SQL: tables, temporary views, inserts, streams of tables; and what Spark does with the options of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from tests.helpers.log.appended import appended
from tests.helpers.log.producer import read_all
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


class Tables:
    """A table `orders` of a log with ten messages, a table and a view `copies…` of an empty one."""

    def __init__(self, spark: SparkSession, uri: str, on_cluster: OnCluster, name: str) -> None:
        self.spark = spark
        self.uri = uri
        self._on_cluster = on_cluster
        self.log, self.target = f"{name}-orders", f"{name}-copies"
        on_cluster(appended(self.log, *(b"%d" % number for number in range(10)), create=True))
        on_cluster(lambda client: client.create(self.target))
        self.sql(f"CREATE TABLE orders USING dlog OPTIONS ({self.options(self.log)}, startingId 'earliest')")
        columns = "(value BINARY, key BINARY) USING dlog"
        self.sql(f"CREATE TABLE copies {columns} OPTIONS ({self.options(self.target)})")
        self.sql(f"CREATE TEMPORARY VIEW copies_view {columns} OPTIONS ({self.options(self.target)})")

    def drop(self) -> None:
        self.sql("DROP VIEW copies_view")
        self.sql("DROP TABLE copies")
        self.sql("DROP TABLE orders")

    def options(self, log: str, between: str = " ") -> str:
        return f"metadata{between}'{self.uri}', log{between}'{log}'"

    def id_after(self, count: int) -> str:
        """The id after the first `count` messages, as an option."""
        after = self._on_cluster(lambda client: read_all(client, self.log))[count]
        return str(after.id)

    def ending(self, count: int, between: str = " ") -> str:
        """The option that ends a read after this number of messages."""
        return f"endingId{between}'{self.id_after(count)}'"

    @property
    def into_target(self) -> str:
        return f"WITH ({self.options(self.target, ' = ')})"

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def append(self, *values: bytes) -> None:
        self._on_cluster(appended(self.log, *values))

    def values(self, log: str | None = None) -> list[bytes]:
        found = self._on_cluster(lambda client: read_all(client, log or self.target))
        return [message.payload for message in found]

    def said(self, attempt: Callable[[], object] | str) -> str:
        return first_said((lambda: self.sql(attempt)) if isinstance(attempt, str) else attempt)


@pytest.fixture
def tables(
    spark: SparkSession, cluster: Standalone, on_cluster: OnCluster, request: pytest.FixtureRequest
) -> Iterator[Tables]:
    found = Tables(spark, cluster.uri, on_cluster, request.node.originalname[:100])
    yield found
    found.drop()


def test_a_table_is_the_log_as_it_is_at_each_query(tables: Tables) -> None:
    """Unlike a DataFrame or a temporary view, which are as they were at their first query."""
    tables.sql(f"CREATE TEMPORARY VIEW frozen USING dlog OPTIONS ({tables.options(tables.log)})")
    counting = "SELECT count(*), max(CAST(decode(value, 'UTF-8') AS int)) FROM"
    assert tables.sql(f"{counting} orders") == tables.sql(f"{counting} frozen") == [(10, 9)]
    tables.append(b"10")
    assert tables.sql(f"{counting} orders") == [(11, 10)]
    assert tables.sql(f"{counting} frozen") == [(10, 9)]
    tables.sql("DROP VIEW frozen")
    joined = "SELECT count(*) FROM orders AS a JOIN orders AS b ON a.message_id = b.message_id"
    assert tables.sql(joined) == [(11,)]
    columns = [row[0] for row in tables.sql("DESCRIBE TABLE orders")]
    assert columns == [
        "log", "message_id", "ledger_id", "entry_id", "batch_index", "key", "value", "publish_time",
    ]  # fmt: skip


def test_a_query_sets_options_before_those_of_the_table(tables: Tables) -> None:
    assert tables.sql("SELECT count(*) FROM orders WITH (startingId = 'latest')") == [(0,)]
    assert tables.spark.read.option("startingId", "latest").table("orders").count() == 0
    options = f"{tables.options(tables.log)}, includeHeaders 'true', startingId 'latest'"
    tables.sql(f"CREATE TABLE headed USING dlog OPTIONS ({options})")
    tables.append(b"10")
    assert tables.sql("SELECT value, headers FROM headed WITH (startingId = 'earliest')")[-1] == (b"10", [])
    assert tables.sql("SELECT value FROM headed") == []
    tables.sql("DROP TABLE headed")
    options = f"{tables.options(tables.log)}, startingTimestamp '2999-01-01'"
    tables.sql(f"CREATE TABLE timed USING dlog OPTIONS ({options})")
    assert tables.sql("SELECT count(*) FROM timed") == [(0,)]
    assert tables.sql("SELECT count(*) FROM timed WITH (startingId = 'earliest')") == [(11,)]
    tables.sql("DROP TABLE timed")


@pytest.fixture
def parts(tables: Tables) -> Iterator[Tables]:
    """`orders`, and temporary views `third` and `fifth` of its first three and five messages."""
    for name, end in (("third", 3), ("fifth", 5)):
        options = f"{tables.options(tables.log)}, {tables.ending(end)}"
        tables.sql(f"CREATE TEMPORARY VIEW {name} USING dlog OPTIONS ({options})")
    yield tables
    for name in ("third", "fifth"):
        tables.sql(f"DROP VIEW {name}")


def test_spark_reads_a_table_that_a_query_names_twice_with_the_first_options(parts: Tables) -> None:
    """No source sees the others. As documented; if this fails, Spark has changed, and the sentences can go."""
    third = f"SELECT count(*) FROM orders WITH ({parts.ending(3, ' = ')})"
    fifth = f"SELECT count(*) FROM orders WITH ({parts.ending(5, ' = ')})"
    assert parts.sql(f"{third} UNION ALL {fifth}") == [(3,), (3,)], "wrong: 3 and 5"
    assert parts.sql(f"{fifth} UNION ALL SELECT count(*) FROM orders") == [(5,), (5,)], "wrong: 5 and 10"
    other_log = f"SELECT count(*) FROM orders WITH (log = '{parts.target}')"
    assert parts.sql(f"{third} UNION ALL {other_log}") == [(3,), (3,)], "wrong: 3 and 0"
    parts.sql(f"CREATE TEMPORARY VIEW counted AS {fifth}")
    assert parts.sql(f"{third} UNION ALL SELECT * FROM counted") == [(3,), (3,)], "wrong: 3 and 5"
    parts.sql("DROP VIEW counted")


def test_two_ranges_in_one_query_are_two_views_or_two_dataframes(parts: Tables) -> None:
    both = "SELECT count(*) FROM third UNION ALL SELECT count(*) FROM fifth"
    assert parts.sql(both) == [(3,), (5,)]

    def counted(end: int) -> DataFrame:
        rows = parts.spark.read.option("endingId", parts.id_after(end)).table("orders")
        return rows.groupBy().count()

    assert [tuple(row) for row in counted(3).union(counted(5)).collect()] == [(3,), (5,)]


def test_spark_ignores_the_options_of_a_query_of_a_view_or_of_a_cached_table(parts: Tables) -> None:
    """As documented, like the one before."""
    third = f"WITH ({parts.ending(3, ' = ')})"
    assert parts.sql(f"SELECT count(*) FROM fifth {third}") == [(5,)], "wrong: 3"
    parts.sql("CACHE TABLE orders")
    try:
        assert parts.sql(f"SELECT count(*) FROM orders {third}") == [(10,)], "wrong: 3"
    finally:
        parts.sql("UNCACHE TABLE orders")
    assert parts.sql(f"SELECT count(*) FROM orders {third}") == [(3,)]


def test_a_location_is_the_name_of_the_log(tables: Tables) -> None:
    """As `path` and `load("orders")` are. Dropping the table leaves the log as it is."""
    location = f"USING dlog OPTIONS (metadata '{tables.uri}') LOCATION '{tables.log}'"
    tables.sql(f"CREATE TABLE located {location}")
    assert tables.sql("SELECT count(*) FROM located") == [(10,)]
    tables.sql("DROP TABLE located")
    assert len(tables.values(tables.log)) == 10


def test_inserts_into_a_view_and_into_a_table_that_is_given_its_options(tables: Tables) -> None:
    tables.sql("INSERT INTO copies_view SELECT value, key FROM orders")
    assert tables.values() == tables.values(tables.log)
    tables.sql("INSERT INTO copies_view (value) VALUES (X'6f6e65')")
    for _ in range(2):
        numbered = f"{tables.into_target[:-1]}, writerId = 'nightly', batchId = '7')"
        tables.sql(f"INSERT INTO copies {numbered} VALUES (X'74776f', NULL)")
    tables.sql(f"INSERT INTO copies {tables.into_target} SELECT CAST('three' AS BINARY), NULL")
    assert tables.values()[10:] == [b"one", b"two", b"three"]
    rows = tables.spark.table("orders").select("value", "key").limit(1)
    named = {"metadata": tables.uri, "log": tables.target}
    rows.writeTo("copies").options(**named).append()
    rows.write.format("dlog").options(**named).mode("append").saveAsTable("copies")
    assert tables.values()[13:] == [b"0", b"0"]


def test_spark_ignores_the_options_of_an_insert_into_a_view(tables: Tables) -> None:
    """As documented. If this fails, Spark has changed, and the sentence in docs/spark.md can go."""
    for _ in range(2):
        numbered = "WITH (writerId = 'nightly', batchId = '7')"
        tables.sql(f"INSERT INTO copies_view {numbered} VALUES (X'74776f', NULL)")
    assert tables.values() == [b"two", b"two"]


def test_a_write_to_a_table_without_options_is_refused(tables: Tables) -> None:
    """Spark shows the sink neither the table's options nor, in the first case, the table's columns."""
    rows = tables.spark.table("orders").select("value", "key")
    for attempt in (
        "INSERT INTO copies SELECT value, key FROM orders",
        "INSERT INTO copies BY NAME SELECT key, value FROM orders",
        "INSERT INTO copies (value) VALUES (X'41')",
        f"CREATE TABLE made USING dlog OPTIONS ({tables.options(tables.target)}) AS SELECT value FROM orders",
        lambda: rows.write.insertInto("copies"),
        rows.writeTo("copies").append,
    ):
        said = tables.said(attempt)
        assert "DLOG_BAD_OPTION: options 'metadata' and 'log' are missing" in said
        assert "INSERT INTO … WITH (metadata" in said
    assert tables.values() == []
    assert len(tables.values(tables.log)) == 10


def test_what_spark_gives_a_writer_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """The reason for the refusals: no options, and the columns of the table that is read. If this fails, Spark has
    changed: see docs/decisions/0010-options-of-spark-tables.md.
    """
    seen = tmp_path / "seen"
    spark.dataSource.register(recording(str(seen)))
    for name in ("one", "other"):
        spark.sql(f"CREATE TABLE {name} USING recording OPTIONS (log '{name}')")
    spark.sql("INSERT INTO one SELECT value FROM other")
    spark.sql("INSERT INTO one SELECT length(value) FROM other")
    spark.sql("CREATE TABLE listed (value STRING) USING recording OPTIONS (log 'listed')")
    spark.sql("SELECT * FROM listed").collect()
    for name in ("one", "other", "listed"):
        spark.sql(f"DROP TABLE {name}")
    assert seen.read_text().splitlines() == [
        "schema {'log': 'one', 'option.log': 'one', 'provider': 'recording'}",
        "schema {'log': 'other', 'option.log': 'other', 'provider': 'recording'}",
        "reader {} of other",
        "writer {} of other",
        "reader {} of other",
        "writer {} of one",
        "reader {} of nothing",
    ]


def recording(path: str) -> type:
    """A data source that writes down what Spark gives it, but for the table's owner."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, WriterCommitMessage
    from pyspark.sql.types import StringType, StructField, StructType

    class Reader(DataSourceReader):
        def read(self, partition):  # type: ignore[no-untyped-def]  # as its base
            yield ("x",)

    class Writer(DataSourceWriter):
        def write(self, iterator):  # type: ignore[no-untyped-def]  # as its base
            list(iterator)
            return WriterCommitMessage()

    class Recording(DataSource):
        @classmethod
        def name(cls) -> str:
            return "recording"

        def record(self, what: str, of: str = "") -> None:
            given = {name: value for name, value in sorted(dict(self.options).items()) if name != "owner"}
            with Path(path).open("a") as file:
                file.write(f"{what} {given}{of}\n")

        def schema(self) -> StructType:
            self.record("schema")
            return StructType([StructField("value", StringType(), True, {"log": self.options["log"]})])

        def reader(self, schema):  # type: ignore[no-untyped-def]  # as its base
            self.record("reader", f" of {schema[0].metadata.get('log', 'nothing')}")
            return Reader()

        def writer(self, schema, overwrite):  # type: ignore[no-untyped-def]  # as its base
            self.record("writer", f" of {schema[0].metadata.get('log', 'nothing')}")
            return Writer()

    return Recording


def test_a_log_only_grows(tables: Tables) -> None:
    overwriting = f"INSERT OVERWRITE copies {tables.into_target} SELECT value, key FROM orders"
    assert "DLOG_NOT_SUPPORTED: a log cannot be overwritten" in tables.said(overwriting)
    for statement in ("DELETE FROM copies", "TRUNCATE TABLE copies"):
        assert "does not support" in tables.said(statement)
    assert tables.values() == []


def test_what_is_wrong_with_a_table_is_said_when_it_is_created_or_queried(tables: Tables) -> None:
    creating = f"CREATE TABLE wrong USING dlog OPTIONS (metadata '{tables.uri}'"
    assert "DLOG_BAD_OPTION: option 'log' is missing" in tables.said(f"{creating})")
    assert "DLOG_BAD_OPTION: option 'colour' is unknown" in tables.said(f"{creating}, log 'x', colour 'red')")
    listed = tables.said("SELECT * FROM copies")
    assert "DLOG_BAD_OPTION: options 'metadata' and 'log' are missing" in listed
    assert "without a list of columns" in listed


@needs_pyspark("4.2", "streams are read")
def test_a_stream_of_a_table_into_a_table(tables: Tables, tmp_path: Path) -> None:
    """`toTable` needs the options of its log: Spark gives a stream's sink those of the query only."""
    rows = tables.spark.readStream.table("orders").select("value", "key")

    def copy(checkpoint: str, **options: str) -> None:
        writer = rows.writeStream.options(checkpointLocation=str(tmp_path / checkpoint), **options)
        query = writer.trigger(availableNow=True).toTable("copies")
        assert query.awaitTermination(60)

    said = tables.said(lambda: copy("refused"))
    assert "DLOG_BAD_OPTION: options 'metadata' and 'log' are missing" in said
    assert tables.values() == []
    assert len(tables.values(tables.log)) == 10
    for _ in range(2):
        copy("taken", metadata=tables.uri, log=tables.target)
        tables.append(b"more")
    assert tables.values() == [*(b"%d" % number for number in range(10)), b"more"]


def test_the_options_of_a_table_do_not_follow_its_rows_into_a_write(tables: Tables) -> None:
    """A DataFrame of a table, written without a log, is refused and not appended to the log of the table."""
    rows = tables.spark.table("orders").select("value", "key")
    writing = rows.write.format("dlog").mode("append")
    assert "DLOG_BAD_OPTION: options 'metadata' and 'log' are missing" in tables.said(writing.save)
    half = writing.option("metadata", tables.uri)
    assert "DLOG_BAD_OPTION: option 'log' is missing" in tables.said(half.save)
    assert len(tables.values(tables.log)) == 10


def stop_streams(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()


DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


@needs_pyspark("4.2", "streams are read")
def test_the_documented_statements_and_programs_run(
    spark: SparkSession, cluster: Standalone, on_cluster: OnCluster, tmp_path: Path
) -> None:
    """Every block of docs/spark.md, in its order, with the address and the directories of this test."""
    on_cluster(appended("orders", b"0", b"1", create=True))
    on_cluster(lambda client: client.create("copies"))
    names: dict[str, Any] = {"spark": spark}
    blocks = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks].count("sql") == 2
    try:
        for kind, block in blocks:
            # A stream that a block has started takes the log `copies` over some seconds later: not from the next block.
            stop_streams(spark)
            text = block.replace("sqlite:////srv/data/meta.db", cluster.uri).replace("/srv", str(tmp_path))
            if kind == "sql":
                for statement in filter(str.strip, text.split(";")):
                    spark.sql(statement).collect()
            else:
                exec(compile(text, str(DOCUMENT), "exec"), names)
    finally:
        stop_streams(spark)
        for name in ("orders", "copies"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    found = [message.payload for message in on_cluster(lambda client: read_all(client, "copies"))]
    assert found == [b"0", b"1"] * 3, "a batch write and two inserts; the stream begins at the tail"
