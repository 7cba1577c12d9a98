"""Rows → the bytes of entries. No I/O.

Rows of one size, in keys and in values, and without headers are a table: its bytes are copied as they are, without a
step for each row. All others are encoded by dlog.format. Both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlog.errors import MessageTooLargeError
from dlog.format.message import HEADERS_MAX, NO_HEADERS, Columns, Flat, bin_bytes, encode_messages
from spark_connector.errors import BadRowError

_FRAMING_BYTES_MAX = 3 + 5 + 5 + 2
"""Of a message without headers: magic and attr, the sizes of key and value, the size of the headers."""
_HEADER_FRAMING_BYTES = 2 * 5

ENTRY_BYTES = 256 * 1024
"""Of messages: a large entry costs little per message, and a reader of one message does not wait for it."""
ENTRY_ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class EncodedEntry:
    """The messages of one entry, encoded."""

    body: bytes
    count: int


def encode_rows(rows: pa.RecordBatch, body_bytes_max: int) -> Iterator[EncodedEntry]:
    """The rows as entries, in order; none has more than `body_bytes_max` bytes.

    Raises:
        MessageTooLargeError: a row alone has more.
        BadRowError: a header has no key or no value, or a row has too many.
    """
    table = _Table(rows)
    for begin, end in _cuts(table.sizes(), min(ENTRY_BYTES, body_bytes_max)):
        body = table.encode(begin, end)
        if len(body) > body_bytes_max:
            raise MessageTooLargeError(
                f"a row has {len(body)} bytes as a message, the limit is {body_bytes_max}: write less in one row",
                entry_bytes=len(body),
                entry_bytes_max=body_bytes_max,
            )
        yield EncodedEntry(body, end - begin)


def _cuts(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Runs of rows with at most this many bytes, or of a single row."""
    through = np.cumsum(sizes)
    begin = taken = 0
    while begin < len(sizes):
        end = int(np.searchsorted(through, taken + most, "right"))
        end = min(max(end, begin + 1), begin + ENTRY_ROWS_MAX)
        yield begin, end
        begin, taken = end, int(through[end - 1])


class _Table:
    """The columns of one record batch."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        names = rows.schema.names
        self._count = rows.num_rows
        self._values = _binary(rows.column(names.index("value")))
        self._keys = _binary(rows.column(names.index("key"))) if "key" in names else None
        self._headers = _Headers(rows.column(names.index("headers"))) if "headers" in names else None

    def sizes(self) -> np.ndarray:
        """Of each row, encoded; or a little more."""
        found = _lengths(self._values) + _FRAMING_BYTES_MAX
        if self._keys is not None:
            found = found + _lengths(self._keys)
        return found if self._headers is None else found + self._headers.sizes()

    def encode(self, begin: int, end: int) -> bytes:
        count = end - begin
        keys = pa.nulls(count, pa.binary()) if self._keys is None else self._keys.slice(begin, count)
        values = self._values.slice(begin, count)
        headers = [NO_HEADERS] * count if self._headers is None else self._headers.flat(begin, end)
        if self._headers is None or headers.count(NO_HEADERS) == count:
            body = _of_equal_sizes(keys, values)
            if body is not None:
                return body
        return encode_messages(Columns(keys.to_pylist(), values.to_pylist(), headers))


class _Headers:
    """The headers of all rows, flat: one list of keys and values, and where each row's begin in it."""

    def __init__(self, column: pa.Array) -> None:
        pairs = column.flatten()
        keys, values = (_binary(part) for part in pairs.flatten())
        if pairs.null_count or keys.null_count or values.null_count:
            raise BadRowError(
                "a row has a header that is null, or whose key or value is null: a header has both; filter it out, or "
                "give it an empty value"
            )
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        if counts.max(initial=0) > HEADERS_MAX:
            raise BadRowError(f"a row has {counts.max()} headers, the limit is {HEADERS_MAX}: write fewer")
        self._borders = np.concatenate(([0], np.cumsum(counts)))
        self._sizes = _lengths(keys) + _lengths(values) + _HEADER_FRAMING_BYTES
        self._flat: list[bytes] = [b""] * (2 * len(keys))
        self._flat[0::2] = keys.to_pylist()
        self._flat[1::2] = values.to_pylist()

    def sizes(self) -> np.ndarray:
        through = np.concatenate(([0], np.cumsum(self._sizes)))
        return through[self._borders[1:]] - through[self._borders[:-1]]

    def flat(self, begin: int, end: int) -> list[Flat]:
        borders = self._borders[begin : end + 1].tolist()
        return [tuple(self._flat[2 * low : 2 * high]) for low, high in pairwise(borders)]


def _binary(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


def _lengths(column: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype("i8")
    return lengths


def _of_equal_sizes(keys: pa.Array, values: pa.Array) -> bytes | None:
    """The encoded messages if all keys have one size, or are null, and so have all values; else None."""
    count = len(values)
    key, value = _cells(keys), _cells(values)
    if key is None or value is None:
        return None
    first = encode_messages(Columns([keys[0].as_py()], [values[0].as_py()], [NO_HEADERS]))
    table = np.empty((count, len(first)), np.uint8)
    table[:] = np.frombuffer(first, np.uint8)
    end = len(first) - 1
    table[:, end - value.shape[1] : end] = value
    end -= bin_bytes(values[0].as_py())
    table[:, end - key.shape[1] : end] = key
    return table.tobytes()


def _cells(column: pa.Array) -> np.ndarray | None:
    """The bytes of the values, a row for each; without columns if all are null or empty. None if sizes differ."""
    count = len(column)
    if column.null_count == count:
        return np.empty((count, 0), np.uint8)
    if column.null_count:
        return None
    _, offsets, data = column.buffers()
    borders = np.frombuffer(offsets, "i4", count + 1, column.offset * 4)
    size = int(borders[1] - borders[0])
    if (np.diff(borders) != size).any():
        return None
    if not size:
        return np.empty((count, 0), np.uint8)
    return np.frombuffer(data, np.uint8, count * size, int(borders[0])).reshape(count, size)
