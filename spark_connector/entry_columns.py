"""The messages of one entry as Arrow arrays.

The bytes of an entry whose messages all have the same size, in keys and in payloads, are a table: its columns are
copied as they are, without a step for each message. All other entries are decoded by dlog.format, which defines what
is valid; the shortcut accepts only bytes that it would accept, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dlog.format.entry import Codec, decode_entry, decode_envelope
from dlog.format.message import FIXED_BYTES, MAGIC, NO_HEADERS, Buffer, Flat

_Decoded = tuple[pa.Array, pa.Array, list[Flat] | None]
"""Keys, payloads, headers."""

_NIL = 0xC0
_BIN_8, _BIN_16, _BIN_32 = 0xC4, 0xC5, 0xC6
_NO_HEADERS = 0x90
_SIZE_BYTES = {_BIN_8: 1, _BIN_16: 2, _BIN_32: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryColumns:
    """`count` messages of one entry, from batch index `first_index` on."""

    ledger_id: int
    entry_id: int
    append_time_us: int
    count: int
    keys: pa.Array
    """Binary, null for a message without a key."""
    payloads: pa.Array
    """Binary, null for a tombstone."""
    headers: list[Flat] | None
    """None: no message has any."""
    first_index: int = 0

    def slice(self, low: int, high: int) -> EntryColumns:
        """Messages `low` to `high` of these, `high` excluded. Copies nothing."""
        if (low, high) == (0, self.count):
            return self
        return EntryColumns(
            ledger_id=self.ledger_id,
            entry_id=self.entry_id,
            append_time_us=self.append_time_us,
            count=high - low,
            keys=self.keys.slice(low, high - low),
            payloads=self.payloads.slice(low, high - low),
            headers=None if self.headers is None else self.headers[low:high],
            first_index=self.first_index + low,
        )


def decode_columns(ledger_id: int, entry_id: int, entry: Buffer) -> EntryColumns:
    """All messages of an entry.

    Raises:
        EntryFormatError: the entry is damaged, or of an unknown format.
    """
    envelope, body = decode_envelope(entry)
    columns: _Decoded | None = None
    if envelope.codec is Codec.NONE and len(body) == envelope.body_bytes:
        columns = _of_equal_sizes(np.frombuffer(body, np.uint8), envelope.count)
    if columns is None:
        _, decoded = decode_entry(entry)
        headers = None if decoded.headers.count(NO_HEADERS) == envelope.count else list(decoded.headers)
        columns = pa.array(decoded.keys, pa.binary()), pa.array(decoded.payloads, pa.binary()), headers
    keys, payloads, found = columns
    return EntryColumns(
        ledger_id=ledger_id,
        entry_id=entry_id,
        append_time_us=envelope.append_time_us,
        count=envelope.count,
        keys=keys,
        payloads=payloads,
        headers=found,
    )


def _of_equal_sizes(body: np.ndarray, count: int) -> _Decoded | None:
    """Keys and payloads if all messages have the sizes of the first one, and no headers; else None."""
    row_bytes, rest = divmod(len(body), count)
    if rest or row_bytes < FIXED_BYTES + 2:
        return None
    first = body[:row_bytes]
    if first[0] != MAGIC or first[1] != 0:
        return None
    if (key := _field(first, 2)) is None or (payload := _field(first, key[1])) is None:
        return None
    if payload[1] != row_bytes - 1 or first[-1] != _NO_HEADERS:
        return None
    rows = body.reshape(count, row_bytes)
    framing = (slice(0, key[0]), slice(key[1], payload[0]), slice(row_bytes - 1, row_bytes))
    if not all((rows[:, part] == first[part]).all() for part in framing):
        return None
    return _column(rows, *key), _column(rows, *payload), None


def _field(row: np.ndarray, at: int) -> tuple[int, int] | None:
    """Where the bytes of the bin or nil at `at` begin and end; of nil both are after it. None: it is neither."""
    if at >= len(row):
        return None
    kind = int(row[at])
    if kind == _NIL:
        return at + 1, at + 1
    size_bytes = _SIZE_BYTES.get(kind)
    if size_bytes is None or at + 1 + size_bytes > len(row):
        return None
    begin = at + 1 + size_bytes
    size = int.from_bytes(row[at + 1 : begin].tobytes(), "big")
    if begin + size > len(row) or kind != (
        _BIN_8 if size < 0x100 else _BIN_16 if size < 0x10000 else _BIN_32
    ):
        return None
    return begin, begin + size


def _column(rows: np.ndarray, begin: int, end: int) -> pa.Array:
    count = len(rows)
    if rows[0, begin - 1] == _NIL and begin == end:
        return pa.nulls(count, pa.binary())
    size = end - begin
    offsets = np.arange(0, (count + 1) * size, size, dtype="i4") if size else np.zeros(count + 1, "i4")
    values = np.ascontiguousarray(rows[:, begin:end])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
