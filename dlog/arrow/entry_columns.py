"""The messages of one entry as Arrow arrays.

The bytes of an entry whose messages all have the same size, in keys and in payloads, are a table: its columns are
copied as they are, without a step for each message. All other entries are decoded by dlog.format, which defines what
is valid; the shortcut accepts only bytes that it would accept, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa

from dlog.format.entry import Codec, decode_entry, decode_envelope
from dlog.format.message import FIXED_BYTES, MAGIC, NO_HEADERS, Buffer, Flat
from dlog.read.batch import MessageBatch

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
    producer_id: bytes | None = None
    """None: no producer appended them."""
    first_sequence: int | None = None
    """The producer's sequence of the first one of these messages; the others follow."""
    message_bytes: int | None = None
    """Of each message as it is encoded, if that is the same for all of them and none has headers; else None."""

    @property
    def value_bytes(self) -> int:
        """What keys, payloads and headers take in memory."""
        if self.message_bytes is not None:
            return self.count * self.message_bytes  # asking arrays takes longer than decoding an envelope
        size: int = self.keys.nbytes + self.payloads.nbytes
        return size if self.headers is None else size + sum(map(len, chain.from_iterable(self.headers)))

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
            producer_id=self.producer_id,
            first_sequence=None if self.first_sequence is None else self.first_sequence + low,
            message_bytes=self.message_bytes,
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
    message_bytes = None if columns is None else len(body) // envelope.count
    if columns is None:
        _, decoded = decode_entry(entry)
        columns = _of_lists(decoded.keys, decoded.payloads, decoded.headers)
    keys, payloads, found = columns
    return EntryColumns(
        ledger_id=ledger_id,
        entry_id=entry_id,
        append_time_us=envelope.append_time_us,
        count=envelope.count,
        keys=keys,
        payloads=payloads,
        headers=found,
        producer_id=None if envelope.producer is None else envelope.producer.producer_id,
        first_sequence=None if envelope.producer is None else envelope.producer.first_sequence,
        message_bytes=message_bytes,
    )


def columns_of_batch(batch: MessageBatch) -> EntryColumns:
    """The same messages, which were decoded already."""
    keys, payloads, headers = _of_lists(batch.keys, batch.payloads, batch.headers)
    return EntryColumns(
        ledger_id=batch.ledger_id,
        entry_id=batch.entry_id,
        append_time_us=batch.append_time_us,
        count=len(batch),
        keys=keys,
        payloads=payloads,
        headers=headers,
        first_index=batch.first_index,
        producer_id=batch.producer_id,
        first_sequence=batch.first_sequence,
    )


def _of_lists(
    keys: Sequence[bytes | None], payloads: Sequence[bytes | None], headers: Sequence[Flat]
) -> _Decoded:
    found = None if headers.count(NO_HEADERS) == len(headers) else list(headers)
    return pa.array(keys, pa.binary()), pa.array(payloads, pa.binary()), found


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
    if not all(_is_the_same(rows, begin, end) for begin, end in _framing(key, payload)):
        return None
    if rows[:, -1].tobytes() != _NO_HEADERS.to_bytes() * count:
        return None
    return _column(rows, *key), _column(rows, *payload), None


def _framing(key: tuple[int, int], payload: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """The bytes before the payload that are not the key."""
    return ((0, payload[0]),) if key[0] == key[1] else ((0, key[0]), (key[1], payload[0]))


def _is_the_same(rows: np.ndarray, begin: int, end: int) -> bool:
    """Whether each row has there what the first one has. Compares bytes: quicker than elements of an array."""
    found: bytes = rows[:, begin:end].tobytes()
    return found == found[: end - begin] * len(rows)


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
    values = np.ascontiguousarray(rows[:, begin:end])
    return pa.Array.from_buffers(
        pa.binary(), count, [None, _offsets(count, end - begin), pa.py_buffer(values)]
    )


@lru_cache(maxsize=32)  # most entries of a log have the same two numbers
def _offsets(count: int, size: int) -> pa.Buffer:
    """Of `count` values of `size` bytes each."""
    return pa.py_buffer((np.arange(count + 1) * size).astype("i4"))
