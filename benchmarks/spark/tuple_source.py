"""A Python source of Spark that yields a tuple for each row: what a source is without Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.load.log_load import MESSAGE_BYTES
from spark_connector.read.schema import read_schema

_ROW = ("log", bytes(20), 1, 1, 0, None, bytes(MESSAGE_BYTES), datetime(2013, 1, 1, tzinfo=UTC))


class TupleSource(DataSource):
    """Options: `rows` and `tasks`. The columns are those of a log, and every row is the same."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> TupleReader:
        return TupleReader(int(self.options["rows"]), int(self.options["tasks"]))


class TupleReader(DataSourceReader):
    def __init__(self, rows: int, tasks: int) -> None:
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        for _ in range(partition.value):
            yield _ROW
