"""One task's part of a log, as Spark sends it and runs it. Everything beyond PySpark is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.options import ReadOptions
    from spark_connector.partitions import Partition


class LogPartition(InputPartition):
    """One task's range of the log, and the address of the cluster."""

    def __init__(self, uri: str, partition: Partition) -> None:
        super().__init__(partition)
        self.uri = uri
        self.partition = partition


def read_log_partition(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """One task: the partition's messages as record batches of the schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from spark_connector.errors import spark_errors
    from spark_connector.reader import TaskSettings, read_partition

    if not isinstance(partition, LogPartition):
        return  # for an empty plan Spark runs one task without a partition
    settings = TaskSettings(
        log=options.log, batch_rows=options.batch_rows, read_timeout_ms=options.read_timeout_ms
    )
    # Spark compares the first batch with exactly this conversion, nullability included.
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with spark_errors():
        yield from read_partition(partition.uri, partition.partition, arrow_schema, settings)
