"""Runs of entries that one reader of a ledger has fetched, kept for the others that want them a little later.

Invariant: the runs of a ledger have up to _RECENT_BYTES_MAX as they are stored. What the readers of one client made of
entries for each other takes about _DECODED_BYTES_MAX at most, however well the entries are compressed, and of however
many ledgers a slow reader still holds runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from ledger.reading.bookie_reads import Entry

_RECENT_BYTES_MAX = 4 * 1024 * 1024
_DECODED_BYTES_MAX = 4 * _RECENT_BYTES_MAX
"""What is made of that many bytes of messages of 20 bytes, which are not compressed."""
_ENTRY_OVERHEAD_BYTES = 1000
"""Of the objects of an entry, those made of it among them."""


class Decoded(dict[int, Any]):
    """What readers made of the entries of a run, by entry id. To add to it, call `keep`."""

    __slots__ = ("__weakref__", "_budget")

    def __init__(self, budget: DecodedBudget) -> None:
        super().__init__()
        self._budget: DecodedBudget | None = budget

    def keep(self, entry_id: int, made: Any, byte_count: int) -> None:
        """Keep it for the other readers of the run, if there is capacity for about `byte_count` bytes."""
        if self._budget is not None and self._budget.reserve(self, byte_count):
            self[entry_id] = made

    def drop(self) -> None:
        """Keep nothing from now on."""
        self.clear()
        self._budget = None


class DecodedBudget:
    """Bounds what the readers of one client keep for each other of all runs, also of those that only a reader holds."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[ref[Decoded], int]] = {}
        """Those that are not empty, with their bytes, in the order in which they began, by identity."""
        self._ended: deque[int] = deque()
        """Those that no reader holds any more, still counted. They end in whichever thread has dropped the reader."""
        self._bytes = 0

    def reserve(self, decoded: Decoded, byte_count: int) -> bool:
        """Whether `byte_count` bytes more may be kept there. What was made of other runs before is dropped for them.

        Nothing of the same run is: the next reader begins with its first entry, and would find none of them if each
        new one took the place of the oldest.
        """
        while self._ended:  # first: their identities are free again
            self._release(self._ended.popleft())
        if byte_count > _DECODED_BYTES_MAX:
            return False
        key = id(decoded)
        while self._bytes + byte_count > _DECODED_BYTES_MAX:
            oldest = next(iter(self._kept), key)
            if oldest == key:
                return False
            self._drop(oldest)
        known, before = self._kept.get(key) or (ref(decoded, lambda _: self._ended.append(key)), 0)
        self._kept[key] = known, before + byte_count
        self._bytes += byte_count
        return True

    def _drop(self, key: int) -> None:
        found = self._kept[key][0]()
        if found is not None:
            found.drop()
        self._release(key)

    def _release(self, key: int) -> None:
        """Count it no more. It may be released already: `_drop` may find one that has just ended."""
        self._bytes -= self._kept.pop(key, (None, 0))[1]


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

    def __init__(self, decoded: DecodedBudget) -> None:
        self._decoded = decoded
        self._runs: dict[int, EntryRun] = {}
        """By the first entry, the oldest first."""
        self._bytes = 0

    def get(self, first: int) -> EntryRun | None:
        """The run that begins with this entry."""
        return self._runs.get(first)

    def add(self, entries: Sequence[Entry]) -> EntryRun:
        """Keep the run of these entries, in place of the oldest ones."""
        found = self._runs[entries[0].entry_id] = run_of(entries, Decoded(self._decoded))
        self._bytes += _cost(found)
        while self._bytes > _RECENT_BYTES_MAX:
            self._bytes -= _cost(self._runs.pop(next(iter(self._runs))))
        return found

    def close(self) -> None:
        """Refer to no run any more. Readers that have fetched some may still share what they make of them."""
        self._runs.clear()


def run_of(entries: Sequence[Entry], decoded: Decoded | None = None) -> EntryRun:
    return EntryRun(entries, sum([len(entry.payload) for entry in entries]), decoded)


def _cost(run: EntryRun) -> int:
    return run.byte_count + _ENTRY_OVERHEAD_BYTES * len(run.entries)
