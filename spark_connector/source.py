"""The Spark data source "dlog": batch read and stream of one log.

    spark.read.format("dlog").option("metadata", uri).option("log", "orders").load()
    spark.readStream.format("dlog").option("metadata", uri).option("log", "orders").load()

Everything beyond PySpark is imported on use, since every Spark session that finds this package imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ledger.errors import MissingExtraError
from ledger.extras import require

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:
    raise MissingExtraError("the Spark source", "pyspark (4.0 or newer)", "spark") from error

from spark_connector.log_partition import LogPartition, read_log_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.options import ReadOptions


class DlogDataSource(DataSource):
    """A log as a DataFrame. Options and schema: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "dlog"

    def schema(self) -> StructType:
        from spark_connector.errors import spark_errors
        from spark_connector.schema import read_schema
        from spark_connector.stream_options import STREAM_NAMES, parse_stream_options

        # Whether a stream asks is not known here.
        if {name.lower() for name in STREAM_NAMES} & {name.lower() for name in self.options}:
            with spark_errors():
                return read_schema(parse_stream_options(self.options).read.include_headers)
        return read_schema(self._parsed().include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_connector.errors import spark_errors
        from spark_connector.schema import check_schema

        options = self._parsed()
        with spark_errors():
            return DlogReader(options, check_schema(schema, options.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from spark_connector.stream import DlogStreamReader
        except ModuleNotFoundError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            return OldSpark()
        return DlogStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        _refuse("writing to a log from Spark is not supported yet: append with dlog.aio or dlog.connect")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        _refuse("writing a stream to a log is not supported yet: append with dlog.aio or dlog.connect")

    def _parsed(self) -> ReadOptions:
        from spark_connector.errors import spark_errors
        from spark_connector.options import parse_options

        with spark_errors():
            require("the Spark source", "spark", "pyarrow", "numpy")
            return parse_options(self.options)


class DlogReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Has only plain values, since Spark pickles it."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        import asyncio

        from spark_connector.errors import spark_errors
        from spark_connector.planning import plan_read

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

    def latestOffset(self, start: dict[str, Any], limit: Any) -> NoReturn:
        self.initialOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        self.initialOffset()


def _refuse(sentence: str) -> NoReturn:
    from spark_connector.errors import NotSupportedError, spark_errors

    with spark_errors():
        raise NotSupportedError(sentence)
