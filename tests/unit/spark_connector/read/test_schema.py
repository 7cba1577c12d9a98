"""Spark's schema, and the record batches of it."""

from __future__ import annotations

from inspect import signature

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from dlog.arrow import read_schema as arrow_schema
from dlog.arrow.columns import ArrowColumns
from dlog.arrow.entry_columns import decode_columns
from dlog.format.entry import ProducerMark
from dlog.model import MessageId
from spark_connector.errors import BadOptionError
from spark_connector.read.schema import check_schema, read_schema
from tests.helpers.log.memory_ledgers import entry_of


def as_arrow(schema: StructType) -> pa.Schema:
    """PySpark before 4.2 has no other zone than UTC."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def test_the_columns_are_those_of_the_library() -> None:
    """Except that Spark has no type for bytes of a fixed number."""
    requested = ["headers", "producer_id", "sequence"]
    everything = arrow_schema.read_schema([*arrow_schema.read_schema().names, *requested])
    for field, ours in zip(as_arrow(read_schema(True, True)), everything, strict=True):
        assert (field.name, field.nullable) == (ours.name, ours.nullable)
        if field.name == "message_id":
            assert (field.type, ours.type) == (pa.binary(), pa.binary(20))
        else:
            assert field.type.equals(ours.type), field.name


def test_batches_have_exactly_the_schema_that_spark_expects() -> None:
    schema = as_arrow(read_schema(True, True))
    columns = ArrowColumns(schema, "l", 10)
    producer = ProducerMark(b"p" * 16, 5)
    list(columns.add(decode_columns(7, 3, entry_of(b"a", b"b", producer=producer))))
    (batch,) = columns.rest()
    assert batch["sequence"].to_pylist() == [5, 6]
    assert batch.schema.equals(schema, check_metadata=True)
    assert batch["message_id"].to_pylist() == [MessageId(7, 3, n).to_bytes() for n in range(2)]


def test_only_the_columns_asked_for_are_built() -> None:
    subset = StructType([read_schema(False)["entry_id"], read_schema(False)["log"]])
    columns = ArrowColumns(as_arrow(check_schema(subset, False)), "l", 4)
    list(columns.add(decode_columns(1, 9, entry_of(b"x"))))
    (batch,) = columns.rest()
    assert batch.to_pylist() == [{"entry_id": 9, "log": "l"}]


def test_a_schema_without_columns_is_refused() -> None:
    """A record batch without columns has no rows, and a count would be 0."""
    with pytest.raises(
        BadOptionError, match="the schema has no columns: name at least one of log, message_id"
    ):
        check_schema(StructType([]), False)


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadOptionError, match="column 'offset' is unknown: use log, message_id"):
        check_schema(StructType([StructField("offset", LongType())]), False)
    with pytest.raises(BadOptionError, match=r"column 'headers' .* set includeHeaders=true"):
        check_schema(StructType([read_schema(True)["headers"]]), False)
    with pytest.raises(
        BadOptionError, match=r"column 'sequence' .* set includeProducer=true for producer_id"
    ):
        check_schema(StructType([read_schema(False, True)["sequence"]]), True)
    with pytest.raises(BadOptionError, match="column 'value' is binary, not bigint"):
        check_schema(StructType([StructField("value", LongType())]), False)


def test_a_column_that_may_be_null_is_not_read_as_one_that_may_not() -> None:
    """Spark leaves a check for null out of a query where the schema excludes it."""
    for column in ("key", "value", "producer_id", "sequence"):
        kind = read_schema(True, True)[column].dataType
        with pytest.raises(BadOptionError, match=rf"column '{column}' may be null: leave out NOT NULL"):
            check_schema(StructType([StructField(column, kind, nullable=False)]), True, True)
    relaxed = StructType([StructField(each.name, each.dataType) for each in read_schema(True, True)])
    assert check_schema(relaxed, True, True) == relaxed
    assert check_schema(read_schema(True, True), True, True) == read_schema(True, True)


def test_a_column_that_is_there_twice_is_named() -> None:
    value = read_schema(False)["value"]
    with pytest.raises(BadOptionError, match="column 'value' is there twice"):
        check_schema(StructType([value, read_schema(False)["key"], value]), False)
