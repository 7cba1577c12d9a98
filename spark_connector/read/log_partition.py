"""One task's part of the logs, as Spark sends it and runs it. Everything beyond PySpark is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.extents.partitions import Partition
    from spark_connector.options.read_options import ReadOptions


class LogPartition(InputPartition):
    """One task's ranges of the logs, and the address of the cluster."""

    def __init__(self, uri: str, partition: Partition) -> None:
        super().__init__(partition)
        self.uri = uri
        self.partition = partition


def read_log_partition(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """One task: the partition's messages as record batches of the schema."""
    from spark_connector.errors import spark_errors
    from spark_connector.read.task import TaskSettings, read_partition

    if not isinstance(partition, LogPartition):
        return  # for an empty plan Spark runs one task without a partition
    settings = TaskSettings(
        batch_rows=options.batch_rows,
        read_timeout_ms=options.read_timeout_ms,
        password_file=options.password_file,
    )
    with spark_errors():
        yield from read_partition(partition.uri, partition.partition, _arrow_schema(schema), settings)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """As Spark converts it: with this it compares the first batch exactly, nullability included."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # before PySpark 4.2 no other was possible
