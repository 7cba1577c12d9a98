"""The columns of a log in Spark. Needs pyspark.

`message_id` is the 20-byte form of the id, so sorting the column sorts the log.
A null `key` differs from an empty one; a null `value` is a tombstone. `producer_id` and `sequence` are null if no
producer appended the message.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_connector.errors import BadOptionError

_HEADER = StructType(
    [StructField("key", StringType(), nullable=False), StructField("value", BinaryType(), nullable=False)]
)

_COLUMNS = (
    StructField("log", StringType(), nullable=False),
    StructField("message_id", BinaryType(), nullable=False),
    StructField("ledger_id", LongType(), nullable=False),
    StructField("entry_id", LongType(), nullable=False),
    StructField("batch_index", IntegerType(), nullable=False),
    StructField("key", BinaryType(), nullable=True),
    StructField("value", BinaryType(), nullable=True),
    StructField("publish_time", TimestampType(), nullable=False),
)
_HEADERS = StructField("headers", ArrayType(_HEADER, containsNull=False), nullable=False)

_PRODUCER = (
    StructField("producer_id", BinaryType(), nullable=True),
    StructField("sequence", LongType(), nullable=True),
)


def read_schema(include_headers: bool, include_producer: bool = False) -> StructType:
    """The schema of a read: eight columns, and those that are requested."""
    headers = [_HEADERS] if include_headers else []
    return StructType([*_COLUMNS, *headers, *(_PRODUCER if include_producer else ())])


def check_schema(asked: StructType, include_headers: bool, include_producer: bool = False) -> StructType:
    """Check a user's `.schema(...)`: it may select columns by name and type.

    Raises:
        BadOptionError: a column is unknown, is there twice, has another type, or is declared as never null and may be;
            or there is none.
    """
    known = {field.name: field for field in read_schema(include_headers, include_producer)}
    if not len(asked):  # Spark would count no rows
        raise BadOptionError(
            f"the schema has no columns: name at least one of {', '.join(known)}", option="schema"
        )
    for field in asked:
        if field.name not in known:
            raise BadOptionError(
                f"column {field.name!r} is unknown: use {', '.join(known)}"
                + ("" if include_headers else "; set includeHeaders=true for headers")
                + ("" if include_producer else "; set includeProducer=true for producer_id and sequence"),
                option="schema",
            )
        if asked.names.count(field.name) > 1:
            raise BadOptionError(
                f"column {field.name!r} is there twice: name it once, and repeat it in a select",
                option="schema",
            )
        ours = known[field.name]
        if field.dataType.simpleString() != ours.dataType.simpleString():
            raise BadOptionError(
                f"column {field.name!r} is {ours.dataType.simpleString()}, not {field.dataType.simpleString()}",
                option="schema",
            )
        if ours.nullable and not field.nullable:
            # Spark drops the checks for null of a query, so that its answer would be wrong.
            raise BadOptionError(f"column {field.name!r} may be null: leave out NOT NULL", option="schema")
    return asked
