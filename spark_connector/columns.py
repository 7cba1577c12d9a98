"""Collects the columns of entries into record batches of a fixed number of rows. No I/O.

No Python step per message and field, except for headers if they are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

import numpy as np
import pyarrow as pa

from dlog.format.message import NO_HEADERS
from spark_connector.entry_columns import EntryColumns

_ID = np.dtype([("ledger", ">i8"), ("entry", ">i8"), ("batch", ">i4")])
"""20 bytes, big-endian, as MessageId.to_bytes packs them."""


@dataclass(slots=True)
class _Rows:
    """Rows collected so far: for each entry its part of a column, or the value that all its messages have."""

    counts: list[int] = field(default_factory=list)
    ledger_ids: list[int] = field(default_factory=list)
    entry_ids: list[int] = field(default_factory=list)
    first_indexes: list[int] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    keys: list[pa.Array] = field(default_factory=list)
    payloads: list[pa.Array] = field(default_factory=list)
    headers: list[Sequence[bytes]] = field(default_factory=list)

    def repeated(self, values: list[int], kind: str = "i8") -> np.ndarray:
        return np.repeat(np.array(values, dtype=kind), self.counts)

    def batch_indexes(self) -> np.ndarray:
        """0, 1, 2 … within each run, from the run's first index on."""
        starts = np.cumsum([0, *self.counts[:-1]])
        within = np.arange(sum(self.counts)) - np.repeat(starts, self.counts)
        indexes: np.ndarray = within + self.repeated(self.first_indexes)
        return indexes


class ArrowColumns:
    """Collects messages into record batches of `batch_rows` rows, in order, with exactly this `schema`."""

    def __init__(self, schema: pa.Schema, log: str, batch_rows: int) -> None:
        self._schema = schema
        self._log = log
        self._batch_rows = batch_rows
        self._rows = _Rows()
        self._count = 0
        self._wants_headers = "headers" in schema.names

    def add(self, entry: EntryColumns) -> Iterator[pa.RecordBatch]:
        """Add the messages of an entry; yield the record batches that are full now."""
        taken = 0
        while taken < entry.count:
            upto = min(entry.count, taken + self._batch_rows - self._count)
            self._append(entry.slice(taken, upto))
            taken = upto
            if self._count == self._batch_rows:
                yield self._take()

    def _append(self, part: EntryColumns) -> None:
        rows = self._rows
        rows.counts.append(part.count)
        rows.ledger_ids.append(part.ledger_id)
        rows.entry_ids.append(part.entry_id)
        rows.first_indexes.append(part.first_index)
        rows.times_us.append(part.append_time_us)
        rows.keys.append(part.keys)
        rows.payloads.append(part.payloads)
        if self._wants_headers:
            rows.headers += part.headers if part.headers is not None else repeat(NO_HEADERS, part.count)
        self._count += part.count

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The last, partly filled batch, if there is one."""
        if self._count:
            yield self._take()

    def _take(self) -> pa.RecordBatch:
        rows, self._rows, self._count = self._rows, _Rows(), 0
        arrays = [_BUILD[column.name](rows, column.type, self._log) for column in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _log_names(rows: _Rows, kind: pa.DataType, log: str) -> pa.Array:
    return pa.repeat(pa.scalar(log, kind), sum(rows.counts))


def _message_ids(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    count = sum(rows.counts)
    packed = np.empty(count, _ID)
    packed["ledger"] = rows.repeated(rows.ledger_ids)
    packed["entry"] = rows.repeated(rows.entry_ids)
    packed["batch"] = rows.batch_indexes()
    offsets = np.arange(0, (count + 1) * _ID.itemsize, _ID.itemsize, dtype="i4")
    array = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(packed.tobytes())]
    )
    return array.cast(kind)


def _ledger_ids(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.array(rows.repeated(rows.ledger_ids), kind)


def _entry_ids(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.array(rows.repeated(rows.entry_ids), kind)


def _batch_indexes(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.array(rows.batch_indexes().astype("i4"), kind)


def _keys(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.concat_arrays(rows.keys).cast(kind)


def _values(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.concat_arrays(rows.payloads).cast(kind)


def _times(rows: _Rows, kind: pa.DataType, _: str) -> pa.Array:
    return pa.array(rows.repeated(rows.times_us), kind)


def _headers(rows: _Rows, kind: pa.ListType, _: str) -> pa.Array:
    """Header keys are bytes in the log and text in Spark; what is not UTF-8 shows as \\xNN."""
    pair = kind.value_type
    flat = list(chain.from_iterable(rows.headers))
    names = pa.array([key.decode("utf-8", "backslashreplace") for key in flat[0::2]], pair.field("key").type)
    values = pa.array(flat[1::2], pair.field("value").type)
    pairs = pa.StructArray.from_arrays([names, values], fields=[pair.field("key"), pair.field("value")])
    offsets = np.cumsum([0, *(len(headers) // 2 for headers in rows.headers)], dtype="i4")
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=kind)


_BUILD: dict[str, Callable[[_Rows, pa.DataType, str], pa.Array]] = {
    "log": _log_names,
    "message_id": _message_ids,
    "ledger_id": _ledger_ids,
    "entry_id": _entry_ids,
    "batch_index": _batch_indexes,
    "key": _keys,
    "value": _values,
    "publish_time": _times,
    "headers": _headers,
}
