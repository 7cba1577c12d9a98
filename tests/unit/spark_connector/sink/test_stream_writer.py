"""What a stream's writer needs for rows: to have taken its log over, or, without exactly-once, nothing."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_connector.errors import SparkSourceError
from spark_connector.sink import task
from spark_connector.sink.writers import DlogStreamWriter
from spark_connector.source import DlogDataSource


def test_a_writer_that_only_commits_refuses_rows_instead_of_dropping_them() -> None:
    source = DlogDataSource({"metadata": "sqlite:////no-such/meta.db", "log": "orders", "writerId": "w"})
    source = pickle.loads(pickle.dumps(source))
    writer = source.streamWriter(StructType([StructField("value", BinaryType())]), overwrite=False)
    assert isinstance(writer, DlogStreamWriter)
    rows = pa.record_batch([pa.array([b"a row"])], names=["value"])
    with pytest.raises(SparkSourceError, match=r"DLOG_NOT_SUPPORTED.*has not taken the log over"):
        writer.write(iter([rows]))
    writer.commit([], 0)


def test_without_exactly_once_a_writer_needs_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that are published once belong to a batch; the option 'writerId' is refused here."""
    appended: list[pa.RecordBatch] = []

    def append_rows(rows: Any, *_: object) -> None:
        appended.extend(rows)

    monkeypatch.setattr(task, "append_rows", append_rows)
    options = {"metadata": "sqlite:////no-such/meta.db", "log": "orders", "exactlyOnce": "false"}
    source = pickle.loads(pickle.dumps(DlogDataSource(options)))
    writer = source.streamWriter(StructType([StructField("value", BinaryType())]), overwrite=False)
    rows = pa.record_batch([pa.array([b"a row"])], names=["value"])
    message = writer.write(iter([rows]))
    assert appended == [rows]
    writer.commit([message], 0)
