"""Rows as entries: the bytes are those of dlog.format whatever way they were made, in order, within the limit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import MessageTooLargeError
from dlog.format.message import HEADERS_MAX, Columns, decode_messages, encode_messages
from spark_connector.errors import BadRowError
from spark_connector.sink import row_entries
from spark_connector.sink.row_entries import encode_rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MIB = 1 << 20


def rows(
    values: list[Any], keys: list[Any] | None = None, headers: list[Any] | None = None
) -> pa.RecordBatch:
    columns = {"value": pa.array(values, pa.binary())}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    if headers is not None:
        columns["headers"] = pa.array(headers, HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def decoded(batch: pa.RecordBatch, most: int = MIB) -> list[tuple[Any, Any, Any]]:
    """Key, value and flat headers of every message."""
    found: list[tuple[Any, Any, Any]] = []
    for entry in encode_rows(batch, most):
        columns = decode_messages(entry.body, entry.count)
        assert len(entry.body) <= most
        assert entry.body == encode_messages(columns)
        found += zip(columns.keys, columns.payloads, columns.headers, strict=True)
    return found


def test_every_field_arrives_as_it_was() -> None:
    batch = rows(
        [b"a", b"", None, b"\x00" * 300],
        [None, b"", b"key", b"k" * 70_000],
        [
            None,
            [],
            [{"key": "x", "value": b"1"}, {"key": "x", "value": b""}],
            [{"key": "ü", "value": b"\xff"}],
        ],
    )
    assert decoded(batch) == [
        (None, b"a", ()),
        (b"", b"", ()),
        (b"key", None, (b"x", b"1", b"x", b"")),
        (b"k" * 70_000, b"\x00" * 300, ("ü".encode(), b"\xff")),
    ]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("keys", [None, [None] * 3, [b""] * 3, [b"abc", b"abd", b"abe"]])
def test_rows_of_one_size_have_the_same_bytes_on_the_short_way(
    size: int, keys: list[Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows([bytes([number]) * size for number in range(3)], keys)
    short = [entry.body for entry in encode_rows(batch, 16 * MIB)]
    monkeypatch.setattr(row_entries, "_of_equal_sizes", lambda keys, values: None)
    assert short == [entry.body for entry in encode_rows(batch, 16 * MIB)]
    assert decoded(batch.slice(1, 2), 16 * MIB) == decoded(batch, 16 * MIB)[1:]


OPTIONAL = st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 8, b"y" * 8, b"z" * 300])
PAIRS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.binary(max_size=3)}), max_size=3
)


@given(
    st.lists(st.tuples(OPTIONAL, OPTIONAL, PAIRS), min_size=1, max_size=30),
    st.integers(400, 3000),
    st.integers(0, 5),
)
def test_any_rows_come_back_in_order(found: list[tuple[Any, Any, Any]], most: int, skipped: int) -> None:
    """Also those of a slice, whose arrays do not begin at their first value."""
    batch = rows(
        [value for _, value, _ in found], [key for key, _, _ in found], [pairs for _, _, pairs in found]
    )
    wanted = [
        (key, value, tuple(part for pair in pairs or [] for part in (pair["key"].encode(), pair["value"])))
        for key, value, pairs in found
    ]
    assert decoded(batch.slice(skipped), max(most, 700)) == wanted[skipped:]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary()])
def test_text_and_large_types_are_taken(kind: pa.DataType) -> None:
    value = "tea" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else b"tea"
    batch = pa.RecordBatch.from_pydict({"value": pa.array([value, None], kind)})
    assert decoded(batch) == [(None, b"tea", ()), (None, None, ())]


def test_entries_are_cut_by_bytes_and_by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_entries, "ENTRY_BYTES", 1000)
    monkeypatch.setattr(row_entries, "ENTRY_ROWS_MAX", 7)
    sizes = [10] * 20 + [900, 200, 5000, 10]
    counts = [entry.count for entry in encode_rows(rows([b"x" * size for size in sizes]), MIB)]
    assert counts == [7, 7, 6, 1, 1, 1, 1]
    assert list(encode_rows(rows([]), MIB)) == []


def test_a_row_that_fits_into_no_entry_is_refused() -> None:
    with pytest.raises(MessageTooLargeError, match="a row has 2007 bytes"):
        list(encode_rows(rows([b"x", b"x" * 2000]), 2006))
    assert [entry.count for entry in encode_rows(rows([b"x", b"x" * 2000]), 2007)] == [1, 1]


@pytest.mark.parametrize(
    "pairs",
    [
        [{"key": None, "value": b""}],
        [{"key": "k", "value": None}],
        [None],
        [{"key": "k", "value": b""}] * 1001,
    ],
)
def test_headers_that_no_message_can_have_are_refused(pairs: list[Any]) -> None:
    assert HEADERS_MAX == 1000
    with pytest.raises(BadRowError):
        list(encode_rows(rows([b"1", b"2"], None, [[], pairs]), MIB))


def test_one_message_has_what_its_columns_say() -> None:
    [entry] = encode_rows(rows([b"v"], [b"k"], [[{"key": "a", "value": b"b"}]]), MIB)
    assert entry.body == encode_messages(Columns([b"k"], [b"v"], [(b"a", b"b")]))
    assert entry.count == 1
