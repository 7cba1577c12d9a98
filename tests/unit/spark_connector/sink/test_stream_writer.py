"""A stream's writer that has not taken its log over, as Spark makes one for commits, takes no rows."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_connector.errors import SparkSourceError
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
