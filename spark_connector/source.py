"""The Spark data source "dlog": batch read and stream of logs, and both ways to write it.

    spark.read.format("dlog").option("metadata", uri).option("log", "orders").load()
    spark.readStream.format("dlog").option("metadata", uri).option("log", "orders").load()
    frame.write.format("dlog").option("metadata", uri).option("log", "orders").mode("append").save()
    frame.writeStream.format("dlog").option("metadata", uri).option("log", "orders").start()

Everything beyond PySpark is imported on use, since every Spark session that finds this package imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ledger.errors import MissingExtraError
from ledger.extras import require

try:
    import pyspark.sql.datasource
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:
    raise MissingExtraError("the Spark source", "pyspark (4.0 or newer)", "spark") from error

from spark_connector.read.log_partition import LogPartition, read_log_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.options.read_options import ReadOptions


class DlogDataSource(DataSource):
    """A log as a DataFrame. Options and schema: docs/spark.md."""

    _was_pickled = False

    @classmethod
    def name(cls) -> str:
        return "dlog"

    def schema(self) -> StructType:
        from spark_connector.options.tables import table_options, with_options
        from spark_connector.read.schema import read_schema

        of_table = table_options(self.options)
        options = self._parsed_for_any_read(self.options if of_table is None else of_table)
        schema = read_schema(options.include_headers, options.include_producer)
        return schema if of_table is None else with_options(schema, of_table)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_connector.errors import spark_errors
        from spark_connector.options.tables import read_options
        from spark_connector.read.schema import check_schema

        with spark_errors():
            options = self._parsed(read_options(self.options, schema))
            asked = check_schema(schema, options.include_headers, options.include_producer)
            return DlogReader(options, asked)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from spark_connector.stream.reader import DlogStreamReader
        except ModuleNotFoundError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            return OldSpark()
        return DlogStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _require_arrow_writers()
        from spark_connector.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        _require_arrow_writers()
        from spark_connector.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite, begins=not self._was_pickled)

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles the source of a stream once, for its commits, and makes a new one for the tasks of each."""
        return {**self.__dict__, "_was_pickled": True}

    def _parsed_for_any_read(self, options: Mapping[str, str]) -> ReadOptions:
        """Of a batch or a stream: which of them asks is not known to `schema`."""
        from spark_connector.errors import spark_errors
        from spark_connector.options.stream_options import (
            STREAM_NAMES,
            check_names_of_any_read,
            parse_stream_options,
        )

        with spark_errors():
            check_names_of_any_read(options)
        if {name.lower() for name in STREAM_NAMES} & {name.lower() for name in options}:
            with spark_errors():
                return parse_stream_options(options).read
        return self._parsed(options)

    def _parsed(self, options: Mapping[str, str]) -> ReadOptions:
        from spark_connector.errors import spark_errors
        from spark_connector.options.read_options import parse_options

        with spark_errors():
            require("the Spark source", "spark", "pyarrow", "numpy")
            return parse_options(options)


class DlogReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Has only plain values, since Spark pickles it."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        import asyncio

        from spark_connector.errors import spark_errors
        from spark_connector.read.planning import plan_read

        with spark_errors():
            plan = asyncio.run(plan_read(self._options))
        return [LogPartition(plan.uri, partition) for partition in plan.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_log_partition(self._options, self._schema, partition)


class OldSpark(DataSourceStreamReader):
    """Refuses a stream at Spark's first call, where PySpark lacks what it needs.

    `streamReader` itself must not raise: Spark would then fail to stop a reader that does not exist, and show that.
    """

    def initialOffset(self) -> NoReturn:
        _refuse(
            "reading a log as a stream needs PySpark 4.2 or newer: upgrade it, or load a DataFrame with spark.read"
        )

    def latestOffset(self, *_: Any) -> NoReturn:  # without arguments, where limits are not known
        self.initialOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        self.initialOffset()


def _require_arrow_writers() -> None:
    from spark_connector.errors import spark_errors

    with spark_errors():
        require("the Spark sink", "spark", "pyarrow", "numpy")
    if not hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter"):
        _refuse("writing to a log needs PySpark 4.1 or newer: upgrade it, or append with dlog.connect")


def _refuse(sentence: str) -> NoReturn:
    from spark_connector.errors import NotSupportedError, spark_errors

    with spark_errors():
        raise NotSupportedError(sentence)
