"""A batch read of Spark without a session: planned as Spark has it planned, and its tasks run here."""

from __future__ import annotations

from spark_connector.errors import spark_errors
from spark_connector.options.read_options import parse_options
from spark_connector.read.log_partition import LogPartition
from spark_connector.read.schema import read_schema
from spark_connector.source import DlogReader


class PlannedBatch:
    """A batch read: what its tasks return, one after the other."""

    def __init__(self, uri: str, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        with spark_errors():
            found = parse_options({"metadata": uri, **texts})
        schema = read_schema(found.include_headers, found.include_producer)
        reader = DlogReader(found, schema)
        self.partitions = [each for each in reader.partitions() if isinstance(each, LogPartition)]
        self.tasks = [
            [row for batch in reader.read(partition) for row in batch.to_pylist()]
            for partition in self.partitions
        ]
        self.rows = [row for task in self.tasks for row in task]

    def by_log(self) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for row in self.rows:
            found.setdefault(row["log"], []).append(row["value"])
        return found
