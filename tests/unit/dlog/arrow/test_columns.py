"""Entries in, record batches out: every column, every border."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dlog.arrow import columns as module
from dlog.arrow.columns import ArrowColumns
from dlog.arrow.entry_columns import EntryColumns
from dlog.arrow.read_schema import read_schema
from dlog.errors import EntryFormatError
from dlog.model import MessageId

EVERY = [*read_schema().names, "headers"]


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


def test_producers_are_columns_on_request() -> None:
    """One batch with entries of two producers, a part of an entry, and one of none."""
    columns = ArrowColumns(read_schema(["producer_id", "sequence", "value"]), "orders", 10)
    one, two = b"1" * 16, b"2" * 16
    list(columns.add(of_producer(one, 7, batch_of(7, 3, [b"a", b"b"]))))
    list(columns.add(batch_of(7, 4, [b"c"])))
    list(columns.add(of_producer(two, 2**63 - 3, batch_of(7, 5, [b"d", b"e", b"f"])).slice(1, 3)))
    (batch,) = columns.rest()
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (one, 7, b"a"),
        (one, 8, b"b"),
        (None, None, b"c"),
        (two, 2**63 - 2, b"e"),
        (two, 2**63 - 1, b"f"),
    ]
    assert not set(read_schema().names) & {"producer_id", "sequence"}


def test_without_producers_their_columns_are_null() -> None:
    columns = ArrowColumns(read_schema(["producer_id", "sequence"]), "orders", 10)
    list(columns.add(batch_of(7, 3, [b"a", b"b"])))
    (batch,) = columns.rest()
    assert batch.to_pylist() == [{"producer_id": None, "sequence": None}] * 2


def test_a_sequence_that_no_writer_accepts_is_damage() -> None:
    columns = ArrowColumns(read_schema(["sequence"]), "orders", 10)
    list(columns.add(of_producer(b"1" * 16, 2**63, batch_of(7, 3, [b"a"]))))
    with pytest.raises(
        EntryFormatError, match="entry 3 of ledger 7 has sequence 9223372036854775808, the limit"
    ):
        list(columns.rest())


def test_nor_is_one_reached_within_an_entry() -> None:
    """It would be a negative number."""
    columns = ArrowColumns(read_schema(["sequence"]), "orders", 10)
    list(columns.add(of_producer(b"1" * 16, 2**63 - 2, batch_of(7, 2, [b"a", b"b"]))))
    assert [row["sequence"] for row in next(columns.rest()).to_pylist()] == [2**63 - 2, 2**63 - 1]
    list(columns.add(of_producer(b"1" * 16, 2**63 - 2, batch_of(7, 3, [b"a", b"b", b"c"]))))
    with pytest.raises(
        EntryFormatError, match="entry 3 of ledger 7 has sequence 9223372036854775808, the limit"
    ):
        list(columns.rest())


def test_a_time_that_no_column_holds_is_damage() -> None:
    """The envelope has one bit more than Arrow's times."""
    columns = ArrowColumns(read_schema(["publish_time"]), "orders", 10)
    list(columns.add(batch_of(7, 3, [b"a"], time_us=2**63 - 1)))
    assert next(columns.rest()).num_rows == 1
    for entry_id, time_us in ((4, 5), (5, 2**63), (6, 6)):
        list(columns.add(batch_of(7, entry_id, [b"a"], time_us=time_us)))
    with pytest.raises(
        EntryFormatError, match="entry 5 of ledger 7 has append time 9223372036854775808, the limit"
    ):
        list(columns.rest())


def of_producer(producer_id: bytes, first_sequence: int, entry: EntryColumns) -> EntryColumns:
    return replace(entry, producer_id=producer_id, first_sequence=first_sequence)


def test_messages_of_several_logs_may_be_in_one_batch() -> None:
    columns = ArrowColumns(read_schema(["log", "value"]), "a", 10)
    list(columns.add(batch_of(7, 3, [b"1", b"2"])))
    columns.log = "b"
    list(columns.add(batch_of(8, 0, [b"3"])))
    (batch,) = columns.rest()
    assert [tuple(row.values()) for row in batch.to_pylist()] == [("a", b"1"), ("a", b"2"), ("b", b"3")]


def test_every_column_of_a_message() -> None:
    columns = ArrowColumns(read_schema(EVERY), "orders", 10)
    headers = [(b"a", b"1", b"a", b"2"), (), (b"\xff", b"")]
    entry = batch_of(7, 3, [b"v", b"", None], [b"k", None, b""], headers, time_us=1_000_001)
    assert list(columns.add(entry)) == []
    (batch,) = columns.rest()
    assert batch.schema == read_schema(EVERY)
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
    columns = ArrowColumns(read_schema(), "l", 4)
    batches = []
    for entry, count in enumerate((5, 1, 6)):
        batches += columns.add(batch_of(1, entry, [b"x"] * count))
    batches += columns.rest()
    assert [batch.num_rows for batch in batches] == [4, 4, 4]
    ids = [MessageId.from_bytes(value) for batch in batches for value in batch["message_id"].to_pylist()]
    assert ids == [MessageId(1, e, n) for e, count in enumerate((5, 1, 6)) for n in range(count)]


def test_a_part_of_an_entry_keeps_its_own_indexes() -> None:
    columns = ArrowColumns(read_schema(), "l", 4)
    list(columns.add(batch_of(1, 9, [b"x", b"y"], first_index=3)))
    (batch,) = columns.rest()
    assert batch["batch_index"].to_pylist() == [3, 4]


def test_only_the_columns_asked_for_are_built() -> None:
    columns = ArrowColumns(read_schema(["entry_id", "log"]), "l", 4)
    list(columns.add(batch_of(1, 9, [b"x"])))
    (batch,) = columns.rest()
    assert batch.to_pylist() == [{"entry_id": 9, "log": "l"}]


def test_a_batch_with_many_bytes_is_full_before_it_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and headers count, and of a part of an entry only that part."""
    monkeypatch.setattr(module, "BATCH_BYTES", 1000)
    columns = ArrowColumns(read_schema(), "l", 50)
    entries = [
        batch_of(1, 0, [b"x" * 400] * 2),
        batch_of(1, 1, [b"x" * 300]),
        batch_of(1, 2, [None], keys=[b"k" * 1000]),
        batch_of(1, 3, [None], headers=[(b"name", b"v" * 996)]),
        batch_of(1, 4, [b"x" * 20] * 100).slice(0, 30),
    ]
    batches = [batch for entry in entries for batch in columns.add(entry)]
    assert [batch.num_rows for batch in [*batches, *columns.rest()]] == [3, 1, 1, 30]


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_entries_of_any_number_fill_batches_of_the_same_rows(size: int) -> None:
    columns = ArrowColumns(read_schema(["value"]), "l", 7)
    batches = [batch for entry in range(9) for batch in columns.add(batch_of(1, entry, [b"x" * size] * 5))]
    assert [batch.num_rows for batch in [*batches, *columns.rest()]] == [7, 7, 7, 7, 7, 7, 3]
