"""Which DataFrames can be written: their columns are the fields of messages. Needs pyspark."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

from spark_connector.errors import BadOptionError

ACCEPTED = "value (binary or string) and optionally key (the same) and headers (array<struct<key:string,value:binary>>)"


def check_sink_schema(schema: StructType) -> None:
    """Check the columns of a DataFrame that is to be written.

    Raises:
        BadOptionError: one is missing, unknown or of another type.
    """
    names = [field.name for field in schema]
    for name in names:
        if name not in ("value", "key", "headers") or names.count(name) > 1:
            raise _wrong(f"column {name!r} is {'there twice' if names.count(name) > 1 else 'unknown'}")
    if "value" not in names:
        raise _wrong("column 'value' is missing")
    for field in schema:
        is_valid = _is_headers if field.name == "headers" else _is_bytes
        if not is_valid(field.dataType):
            raise _wrong(f"column {field.name!r} is {field.dataType.simpleString()}")


def _wrong(what: str) -> BadOptionError:
    return BadOptionError(
        f"{what}: a DataFrame to write has the columns {ACCEPTED}; select them", option="schema"
    )


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_headers(kind: DataType) -> bool:
    return (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and kind.elementType.names == ["key", "value"]
        and all(_is_bytes(field.dataType) for field in kind.elementType)
    )
