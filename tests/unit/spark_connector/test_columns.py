"""Entries in, record batches out: every column, every border."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from dlog.model import MessageId
from spark_connector.columns import ArrowColumns
from spark_connector.entry_columns import EntryColumns
from spark_connector.errors import BadOptionError
from spark_connector.schema import check_schema, read_schema


def batch_of(
    ledger_id: int,
    entry_id: int,
    payloads: list[bytes | None],
    keys: list[bytes | None] | None = None,
    headers: list[list[bytes]] | None = None,
    first_index: int = 0,
    time_us: int = 0,
) -> EntryColumns:
    return EntryColumns(
        ledger_id=ledger_id,
        entry_id=entry_id,
        first_index=first_index,
        append_time_us=time_us,
        count=len(payloads),
        keys=pa.array(keys or [None] * len(payloads), pa.binary()),
        payloads=pa.array(payloads, pa.binary()),
        headers=headers,
    )


def arrow(include_headers: bool = False) -> pa.Schema:
    return to_arrow_schema(read_schema(include_headers), timezone="UTC")


def test_every_column_of_a_message() -> None:
    columns = ArrowColumns(arrow(include_headers=True), "orders", 10)
    headers = [[b"a", b"1", b"a", b"2"], [], [b"\xff", b""]]
    entry = batch_of(7, 3, [b"v", b"", None], [b"k", None, b""], headers, time_us=1_000_001)
    assert list(columns.add(entry)) == []
    (batch,) = columns.rest()
    assert batch.schema == arrow(include_headers=True)
    rows = batch.to_pylist()
    assert [row["log"] for row in rows] == ["orders"] * 3
    assert [row["message_id"] for row in rows] == [MessageId(7, 3, n).to_bytes() for n in range(3)]
    assert [(row["ledger_id"], row["entry_id"], row["batch_index"]) for row in rows] == [
        (7, 3, 0),
        (7, 3, 1),
        (7, 3, 2),
    ]
    assert [row["key"] for row in rows] == [b"k", None, b""]
    assert [row["value"] for row in rows] == [b"v", b"", None]
    assert rows[0]["publish_time"].timestamp() == 1.000001
    assert [row["headers"] for row in rows] == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}],
        [],
        [{"key": "\\xff", "value": b""}],
    ]


def test_batches_are_full_but_the_last() -> None:
    """Entries of 5, 1 and 6 messages in batches of 4 rows: 4, 4, 4, and the ids run on across the cuts."""
    columns = ArrowColumns(arrow(), "l", 4)
    batches = []
    for entry, count in enumerate((5, 1, 6)):
        batches += columns.add(batch_of(1, entry, [b"x"] * count))
    batches += columns.rest()
    assert [batch.num_rows for batch in batches] == [4, 4, 4]
    ids = [MessageId.from_bytes(value) for batch in batches for value in batch["message_id"].to_pylist()]
    assert ids == [MessageId(1, e, n) for e, count in enumerate((5, 1, 6)) for n in range(count)]


def test_a_part_of_an_entry_keeps_its_own_indexes() -> None:
    columns = ArrowColumns(arrow(), "l", 4)
    list(columns.add(batch_of(1, 9, [b"x", b"y"], first_index=3)))
    (batch,) = columns.rest()
    assert batch["batch_index"].to_pylist() == [3, 4]


def test_only_the_columns_asked_for_are_built() -> None:
    subset = StructType([read_schema(False)["entry_id"], read_schema(False)["log"]])
    columns = ArrowColumns(to_arrow_schema(check_schema(subset, False), timezone="UTC"), "l", 4)
    list(columns.add(batch_of(1, 9, [b"x"])))
    (batch,) = columns.rest()
    assert batch.to_pylist() == [{"entry_id": 9, "log": "l"}]


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadOptionError, match="column 'offset' is unknown: use log, message_id"):
        check_schema(StructType([StructField("offset", LongType())]), False)
    with pytest.raises(BadOptionError, match=r"column 'headers' .* set includeHeaders=true"):
        check_schema(StructType([read_schema(True)["headers"]]), False)
    with pytest.raises(BadOptionError, match="column 'value' is binary, not bigint"):
        check_schema(StructType([StructField("value", LongType())]), False)
