"""Which columns can be written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_connector.errors import BadOptionError
from spark_connector.read.schema import read_schema
from spark_connector.sink.schema import check_sink_schema

BINARY, TEXT = BinaryType(), StringType()


def headers(**fields: DataType) -> ArrayType:
    return ArrayType(StructType([StructField(name, kind) for name, kind in fields.items()]))


def schema(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


@pytest.mark.parametrize(
    "found",
    [
        schema(("value", BINARY)),
        schema(("value", TEXT), ("key", TEXT)),
        schema(("key", BINARY), ("value", BINARY), ("headers", headers(key=TEXT, value=BINARY))),
        schema(("headers", headers(key=BINARY, value=TEXT)), ("value", TEXT)),
    ],
)
def test_these_are_taken(found: StructType) -> None:
    check_sink_schema(found)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("key", BINARY)], "column 'value' is missing"),
        ([("value", IntegerType())], "column 'value' is int"),
        ([("value", BINARY), ("key", LongType())], "column 'key' is bigint"),
        ([("value", BINARY), ("value", BINARY)], "column 'value' is there twice"),
        ([("value", BINARY), ("Key", BINARY)], "column 'Key' is unknown"),
        ([("value", BINARY), ("publish_time", TimestampType())], "column 'publish_time' is unknown"),
        ([("value", BINARY), ("headers", MapType(TEXT, BINARY))], "column 'headers' is map<string,binary>"),
        ([("value", BINARY), ("headers", ArrayType(TEXT))], "column 'headers' is array<string>"),
        ([("value", BINARY), ("headers", headers(k=TEXT, v=BINARY))], "column 'headers' is array<struct<k"),
        (
            [("value", BINARY), ("headers", headers(value=BINARY, key=TEXT))],
            "column 'headers' is array<struct<v",
        ),
        ([("value", BINARY), ("headers", headers(key=TEXT, value=LongType()))], "column 'headers' is array"),
    ],
)
def test_others_are_refused_by_name_with_what_is_taken(
    columns: list[tuple[str, DataType]], said: str
) -> None:
    with pytest.raises(BadOptionError) as caught:
        check_sink_schema(schema(*columns))
    assert str(caught.value).startswith(said)
    assert "value (binary or string)" in str(caught.value)


def test_what_is_read_can_be_written_once_its_fields_are_selected() -> None:
    found = read_schema(include_headers=True)
    check_sink_schema(StructType([field for field in found if field.name in ("value", "key", "headers")]))
    with pytest.raises(BadOptionError, match="column 'log' is unknown"):
        check_sink_schema(found)
