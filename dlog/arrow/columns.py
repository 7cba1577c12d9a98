"""Collects the columns of entries into record batches of a fixed number of rows. No I/O.

No Python step per message and field, except for headers if they are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, repeat

import numpy as np
import pyarrow as pa

from dlog.arrow.entry_columns import EntryColumns
from dlog.errors import EntryFormatError
from dlog.format.message import NO_HEADERS
from dlog.format.producer_snapshot import SEQUENCE_MAX, sequence_too_large

_ID = np.dtype([("ledger", ">i8"), ("entry", ">i8"), ("batch", ">i4")])
"""20 bytes, big-endian, as MessageId.to_bytes packs them."""
_TIME_US_MAX = 2**63 - 1


@dataclass(slots=True)
class _Rows:
    """Rows collected so far: for each entry its part of a column, or the value that all its messages have."""

    counts: list[int] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    ledger_ids: list[int] = field(default_factory=list)
    entry_ids: list[int] = field(default_factory=list)
    first_indexes: list[int] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    keys: list[pa.Array] = field(default_factory=list)
    payloads: list[pa.Array] = field(default_factory=list)
    headers: list[Sequence[bytes]] = field(default_factory=list)
    producer_ids: list[bytes | None] = field(default_factory=list)
    first_sequences: list[int | None] = field(default_factory=list)
    _batch_indexes: np.ndarray | None = None

    @property
    def batch_indexes(self) -> np.ndarray:
        """Of all rows, which two columns need. Not before all rows are collected."""
        if self._batch_indexes is None:
            self._batch_indexes = self.rising(self.first_indexes)
        return self._batch_indexes

    def repeated(self, values: list[int], kind: str = "i8") -> np.ndarray:
        return np.repeat(np.array(values, dtype=kind), self.counts)

    def repeated_array(self, values: Sequence[str | bytes | None], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(values)), self.counts)))

    def rising(self, firsts: list[int]) -> np.ndarray:
        """First, first + 1, first + 2 … within each run."""
        starts = np.cumsum([0, *self.counts[:-1]])
        within = np.arange(sum(self.counts)) - np.repeat(starts, self.counts)
        numbers: np.ndarray = within + self.repeated(firsts)
        return numbers


BATCH_BYTES = 32 * 1024 * 1024
"""A record batch with this number of bytes of keys, values and headers is full, whatever the number of its rows.

It has one entry more at most, and so stays far below the 2 GiB that Arrow's offsets can address.
"""


class ArrowColumns:
    """Collects messages into record batches, in order, with exactly this `schema`.

    A batch is full with `batch_rows` rows, or with BATCH_BYTES.
    """

    def __init__(self, schema: pa.Schema, log: str, batch_rows: int) -> None:
        self.log = log
        """Of the messages that are added next; those of several logs may be in one batch."""
        self._schema = schema
        self._batch_rows = batch_rows
        self._rows = _Rows()
        self._count = 0
        self._bytes = 0
        self._wants_headers = "headers" in schema.names

    @property
    def is_empty(self) -> bool:
        return not self._count

    @property
    def is_full(self) -> bool:
        return self._count >= self._batch_rows or self._bytes >= BATCH_BYTES

    def add(self, entry: EntryColumns) -> Iterator[pa.RecordBatch]:
        """Add the messages of an entry; yield the record batches that are full now."""
        taken = 0
        while taken < entry.count:
            taken += self.put(entry.slice(taken, entry.count))
            if self.is_full:
                yield self.take()

    def put(self, entry: EntryColumns) -> int:
        """Add as many of its messages as there are rows left, from the first on; returns how many."""
        part = entry.slice(0, min(entry.count, self._batch_rows - self._count))
        self._append(part)
        self._count += part.count
        self._bytes += part.value_bytes
        return part.count

    def _append(self, part: EntryColumns) -> None:
        rows = self._rows
        rows.counts.append(part.count)
        rows.logs.append(self.log)
        rows.ledger_ids.append(part.ledger_id)
        rows.entry_ids.append(part.entry_id)
        rows.first_indexes.append(part.first_index)
        rows.times_us.append(part.append_time_us)
        rows.keys.append(part.keys)
        rows.payloads.append(part.payloads)
        if self._wants_headers:
            rows.headers += part.headers if part.headers is not None else repeat(NO_HEADERS, part.count)
        rows.producer_ids.append(part.producer_id)
        rows.first_sequences.append(part.first_sequence)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The last, partly filled batch, if there is one."""
        if self._count:
            yield self.take()

    def take(self) -> pa.RecordBatch:
        """The rows collected since the last one."""
        rows, self._rows, self._count, self._bytes = self._rows, _Rows(), 0, 0
        arrays = [_BUILD[column.name](rows, column.type) for column in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _log_names(rows: _Rows, kind: pa.DataType) -> pa.Array:
    if len(set(rows.logs)) == 1:
        return _repeated_name(rows.logs[0], sum(rows.counts), kind)
    return rows.repeated_array(rows.logs, kind)


@lru_cache(maxsize=4)  # all batches of a log but the last have the same number of rows
def _repeated_name(log: str, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(log, kind), count)


def _message_ids(rows: _Rows, kind: pa.DataType) -> pa.Array:
    count = sum(rows.counts)
    packed = np.empty(count, _ID)
    packed["ledger"] = rows.repeated(rows.ledger_ids)
    packed["entry"] = rows.repeated(rows.entry_ids)
    packed["batch"] = rows.batch_indexes
    ids = pa.Array.from_buffers(pa.binary(_ID.itemsize), count, [None, pa.py_buffer(packed.view("u1"))])
    return ids.cast(kind)


def _ledger_ids(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.repeated(rows.ledger_ids), kind)


def _entry_ids(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.repeated(rows.entry_ids), kind)


def _batch_indexes(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.batch_indexes.astype("i4"), kind)


def _keys(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(rows.keys).cast(kind)


def _values(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(rows.payloads).cast(kind)


def _times(rows: _Rows, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(rows.repeated(rows.times_us), kind)
    except OverflowError as error:
        time_us = max(rows.times_us)
        at = rows.times_us.index(time_us)
        raise EntryFormatError(
            f"entry {rows.entry_ids[at]} of ledger {rows.ledger_ids[at]} has append time {time_us}, the limit is "
            f"{_TIME_US_MAX}: it is damaged"
        ) from error


def _headers(rows: _Rows, kind: pa.ListType) -> pa.Array:
    """Header keys are bytes in the log and text here; what is not UTF-8 shows as \\xNN."""
    pair = kind.value_type
    flat = list(chain.from_iterable(rows.headers))
    names = pa.array([key.decode("utf-8", "backslashreplace") for key in flat[0::2]], pair.field("key").type)
    values = pa.array(flat[1::2], pair.field("value").type)
    pairs = pa.StructArray.from_arrays([names, values], fields=[pair.field("key"), pair.field("value")])
    offsets = np.cumsum([0, *(len(headers) // 2 for headers in rows.headers)], dtype="i4")
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=kind)


def _producer_ids(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return rows.repeated_array(rows.producer_ids, kind)


def _sequences(rows: _Rows, kind: pa.DataType) -> pa.Array:
    firsts = rows.first_sequences
    places = zip(firsts, rows.counts, rows.ledger_ids, rows.entry_ids, strict=True)
    for first, count, ledger_id, entry_id in places:
        if first is not None and (last := first + count - 1) > SEQUENCE_MAX:
            raise sequence_too_large(ledger_id, entry_id, last)
    lacking = np.repeat([first is None for first in firsts], rows.counts)
    return pa.array(rows.rising([first or 0 for first in firsts]), kind, mask=lacking)


_BUILD: dict[str, Callable[[_Rows, pa.DataType], pa.Array]] = {
    "log": _log_names,
    "message_id": _message_ids,
    "ledger_id": _ledger_ids,
    "entry_id": _entry_ids,
    "batch_index": _batch_indexes,
    "key": _keys,
    "value": _values,
    "publish_time": _times,
    "headers": _headers,
    "producer_id": _producer_ids,
    "sequence": _sequences,
}
