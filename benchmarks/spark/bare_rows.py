"""The least that a Python source of Spark can do for rows that another process stores.

A task receives as many bytes as its rows have from a bare source (`benchmarks.floors.bare_source`), into one buffer,
and yields a record batch that it has made before. No byte is stored, checked, decoded or copied into a column.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from benchmarks.load.log_load import MESSAGE_BYTES
from spark_connector.read.schema import read_schema

_BATCH_ROWS = 8192
"""As many as `batchRows` of a log by default."""
_PIECES_AHEAD = 2


class BareRows(DataSource):
    """Options: `rows`, `tasks`, the `port` and `pieceBytes` of the bare source, and the `file` with a first batch."""

    @classmethod
    def name(cls) -> str:
        return "barerows"

    def schema(self) -> StructType:
        return read_schema(include_headers=False)

    def reader(self, schema: StructType) -> BareRowsReader:
        return BareRowsReader(self.options, schema)


class BareRowsReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        tasks = int(self._options["tasks"])
        return [InputPartition(int(self._options["rows"]) // tasks) for _ in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: int = partition.value
        file = pq.ParquetFile(self._options["file"])
        first = next(file.iter_batches(_BATCH_ROWS, columns=self._schema.fieldNames()))
        batch = first.cast(to_arrow_schema(self._schema, timezone="UTC"))
        buffer = memoryview(bytearray(_BATCH_ROWS * MESSAGE_BYTES))
        with _Pieces(int(self._options["port"]), int(self._options["pieceBytes"])) as pieces:
            for count in (*repeat(_BATCH_ROWS, rows // _BATCH_ROWS), rows % _BATCH_ROWS):
                pieces.receive(buffer[: count * MESSAGE_BYTES])
                yield batch.slice(0, count)


class _Pieces:
    """Bytes of a bare source, which is asked in time for the next piece."""

    def __init__(self, port: int, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._received = self._asked = 0

    def __enter__(self) -> _Pieces:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def receive(self, into: memoryview) -> None:
        while into:
            wanted = self._received // self._piece_bytes + _PIECES_AHEAD
            if wanted > self._asked:
                self._connection.sendall(bytes(wanted - self._asked))
                self._asked = wanted
            count = self._connection.recv_into(into)
            assert count, "the bare source has ended"
            self._received += count
            into = into[count:]
