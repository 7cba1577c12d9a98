"""What a simulated key-value store holds: the durable records, the visible ones, and the writes in between."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """One atomic write: the deletes go first, then the puts come."""

    puts: tuple[tuple[bytes, bytes], ...]
    deletes: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes on the disk."""
        return sum(len(key) + len(value) + 16 for key, value in self.puts) + 16 * (len(self.deletes) + 1)


class Records:
    """A sorted map of bytes."""

    def __init__(self, records: Mapping[bytes, bytes]) -> None:
        self.values = dict(records)
        self.keys = sorted(self.values)

    def apply(self, batch: Batch) -> None:
        for key in batch.deletes:
            self._delete(key)
        for key, value in batch.puts:
            if key not in self.values:
                insort(self.keys, key)
            self.values[key] = value

    def _delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def between(self, first: bytes, end: bytes) -> list[bytes]:
        """Keys with first <= key < end, ascending."""
        return self.keys[bisect_left(self.keys, first) : bisect_left(self.keys, end)]

    def floor(self, key: bytes) -> bytes | None:
        at = bisect_right(self.keys, key)
        return self.keys[at - 1] if at else None


class StoreState:
    """One store. A write is visible immediately; a crash keeps a prefix of what was not synced."""

    def __init__(self, records: Mapping[bytes, bytes] | None = None) -> None:
        self.records = Records(records or {})
        self.durable = Records(records or {})
        self.pending: list[Batch] = []
        self.damaged: list[tuple[bytes, bytes]] = []
        """Key ranges, both ends included, in which nothing can be read any more."""
        self.unopenable = False
        self.locked = False
        self.disk_bytes = 0

    def write(self, batch: Batch) -> None:
        self.records.apply(batch)
        self.pending.append(batch)

    @property
    def pending_bytes(self) -> int:
        return sum(batch.size for batch in self.pending)

    def sync(self) -> None:
        self.disk_bytes += self.pending_bytes
        for batch in self.pending:
            self.durable.apply(batch)
        self.pending.clear()

    def forget(self, kept: int) -> None:
        """The first `kept` unsynced writes turn out durable, the others were never made."""
        del self.pending[kept:]
        self.sync()
        self.records = Records(self.durable.values)

    def durable_after(self, kept: int) -> dict[bytes, bytes]:
        """What is durable if the first `kept` unsynced writes are."""
        if not kept:
            return dict(self.durable.values)
        records = Records(self.durable.values)
        for batch in self.pending[:kept]:
            records.apply(batch)
        return records.values

    def is_damaged(self, key: bytes) -> bool:
        return any(first <= key <= last for first, last in self.damaged)
