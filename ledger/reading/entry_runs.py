"""Runs of entries that one reader of a ledger has fetched, kept for the others that want them a little later.

Invariant: the runs have up to _RECENT_BYTES_MAX as they are stored, and what readers made of their entries for each
other takes about _DECODED_BYTES_MAX at most, however well the entries are compressed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.reading.bookie_reads import Entry

_RECENT_BYTES_MAX = 4 * 1024 * 1024
_DECODED_BYTES_MAX = 4 * _RECENT_BYTES_MAX
"""What is made of that many bytes of messages of 20 bytes, which are not compressed."""
_ENTRY_OVERHEAD_BYTES = 1000
"""Of the objects of an entry, those made of it among them."""


class Decoded(dict[int, Any]):
    """What readers made of the entries of a run, by entry id. To add to it, call `keep`."""

    __slots__ = ("_recent", "byte_count")

    def __init__(self, recent: RecentRuns) -> None:
        super().__init__()
        self._recent: RecentRuns | None = recent
        self.byte_count = 0

    def keep(self, entry_id: int, made: Any, byte_count: int) -> None:
        """Keep it for the other readers of the run, if there is capacity for about `byte_count` bytes."""
        if self._recent is not None and self._recent.reserve(self, byte_count):
            self[entry_id] = made
            self.byte_count += byte_count

    def drop(self) -> None:
        """Keep nothing from now on."""
        self.clear()
        self._recent = None


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Consecutive entries. Readers that share them share `decoded` too; None if no other reader wants them."""

    entries: Sequence[Entry]
    byte_count: int
    decoded: Decoded | None = field(default=None, compare=False)

    def within(self, max_entries: int, max_bytes: int) -> EntryRun:
        """The beginning of it that keeps to these limits, at least one entry."""
        if len(self.entries) <= max_entries and self.byte_count <= max_bytes:
            return self
        count = byte_count = 0
        for entry in self.entries[:max_entries]:
            if count and byte_count + len(entry.payload) > max_bytes:
                break
            count += 1
            byte_count += len(entry.payload)
        return EntryRun(self.entries[:count], byte_count, self.decoded)


class RecentRuns:
    """The runs of one ledger that were fetched last."""

    def __init__(self) -> None:
        self._runs: dict[int, EntryRun] = {}
        """By the first entry, the oldest first."""
        self._bytes = 0
        self._decoded: deque[Decoded] = deque()
        """Those that are not empty, in the order in which they began."""
        self._decoded_bytes = 0
        self._is_closed = False

    def get(self, first: int) -> EntryRun | None:
        """The run that begins with this entry."""
        return self._runs.get(first)

    def add(self, entries: Sequence[Entry]) -> EntryRun:
        """Keep the run of these entries, in place of the oldest ones."""
        found = self._runs[entries[0].entry_id] = run_of(entries, Decoded(self))
        self._bytes += _cost(found)
        while self._bytes > _RECENT_BYTES_MAX:
            self._bytes -= _cost(self._runs.pop(next(iter(self._runs))))
        return found

    def reserve(self, decoded: Decoded, byte_count: int) -> bool:
        """Whether `byte_count` bytes more may be kept there. What was made of other runs before is dropped for them.

        Nothing of the same run is: the next reader begins with its first entry, and would find none of them if each
        new one took the place of the oldest.
        """
        if byte_count > _DECODED_BYTES_MAX:
            return False
        while self._decoded_bytes + byte_count > _DECODED_BYTES_MAX:
            if not self._decoded or self._decoded[0] is decoded:
                return False
            oldest = self._decoded.popleft()
            self._decoded_bytes -= oldest.byte_count
            oldest.drop()
        if not decoded and not self._is_closed:
            self._decoded.append(decoded)
        self._decoded_bytes += byte_count
        return True

    def close(self) -> None:
        """Refer to no run any more. Readers that have fetched some may still share what they make of them."""
        self._is_closed = True
        self._runs.clear()
        self._decoded.clear()


def run_of(entries: Sequence[Entry], decoded: Decoded | None = None) -> EntryRun:
    return EntryRun(entries, sum([len(entry.payload) for entry in entries]), decoded)


def _cost(run: EntryRun) -> int:
    return run.byte_count + _ENTRY_OVERHEAD_BYTES * len(run.entries)
