"""The write cache: entries accepted and not yet in an entry log. In memory only; the journal has them durably.

Entries are kept in runs, as received: one list per run, and no object per entry other than its slice of the receive
buffer. There are two halves: one fills while the other, frozen, is flushed.

Invariant: runs of a ledger never overlap. The storage keeps repeated entries out, and a late run that falls into the
gaps of another is merged with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from bookie_server.storage.ranges import Range, dense_ranges
from bookie_server.storage.stored_entry import StoredEntry

ENTRY_OVERHEAD_BYTES = 256
"""Memory of one slice and its share of the run and of the receive buffer, in addition to its bytes (measured)."""

Run = tuple[Sequence[int], Sequence[StoredEntry]]
"""Ascending entry ids (a range if dense) and the entries."""


class LedgerRuns:
    """The runs of one ledger, ascending by first id."""

    __slots__ = ("_firsts", "runs", "size")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self.runs: list[Run] = []
        self.size = 0

    def put(self, ids: Sequence[int], entries: Sequence[StoredEntry], size: int) -> None:
        self.size += size
        if not self.runs or ids[0] > self.runs[-1][0][-1]:
            self._firsts.append(ids[0])
            self.runs.append((ids, entries))
        else:
            self._merge(ids, entries)

    def _merge(self, ids: Sequence[int], entries: Sequence[StoredEntry]) -> None:
        """Put a late run in its place; runs it interleaves with become one run."""
        low = max(0, bisect_right(self._firsts, ids[0]) - 1)
        if self.runs[low][0][-1] < ids[0]:
            low += 1
        high = bisect_right(self._firsts, ids[-1])
        pairs = dict(zip(ids, entries, strict=True))
        for run_ids, run_entries in self.runs[low:high]:
            pairs.update(zip(run_ids, run_entries, strict=True))
        merged = sorted(pairs)
        self._firsts[low:high] = merged[:1]
        self.runs[low:high] = [(merged, [pairs[entry_id] for entry_id in merged])]

    def entry(self, entry_id: int) -> StoredEntry | None:
        at = bisect_right(self._firsts, entry_id) - 1
        if at < 0:
            return None
        ids, entries = self.runs[at]
        index = bisect_left(ids, entry_id)
        return entries[index] if index < len(ids) and ids[index] == entry_id else None

    def consecutive(self, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """The entry and those that follow it in its run, none if it is not here; fewer than there are is fine."""
        at = bisect_right(self._firsts, entry_id) - 1
        if at < 0:
            return ()
        ids, entries = self.runs[at]
        index = bisect_left(ids, entry_id)
        if index == len(ids) or ids[index] != entry_id:
            return ()
        return entries[index : index + (count_max if isinstance(ids, range) else 1)]


class WriteCache:
    """One half of the write cache."""

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerRuns] = {}
        self.size = 0

    def put(
        self, ledger_id: int, ids: Sequence[int], entries: Sequence[StoredEntry], entry_bytes: int
    ) -> None:
        """Take a run whose ids are not here yet."""
        size = entry_bytes + ENTRY_OVERHEAD_BYTES * len(entries)
        runs = self.ledgers.get(ledger_id)
        if runs is None:
            runs = self.ledgers[ledger_id] = LedgerRuns()
        runs.put(ids, entries, size)
        self.size += size

    def entry(self, ledger_id: int, entry_id: int) -> StoredEntry | None:
        runs = self.ledgers.get(ledger_id)
        return None if runs is None else runs.entry(entry_id)

    def consecutive(self, ledger_id: int, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """As `LedgerRuns.consecutive`."""
        runs = self.ledgers.get(ledger_id)
        return () if runs is None else runs.consecutive(entry_id, count_max)

    def ranges(self, ledger_id: int) -> list[Range]:
        """Ranges of the ledger's entries here."""
        runs = self.ledgers.get(ledger_id)
        return [] if runs is None else [found for ids, _ in runs.runs for found in dense_ranges(ids)]

    def drop(self, ledger_id: int) -> None:
        """Forget a deleted ledger's entries."""
        runs = self.ledgers.pop(ledger_id, None)
        if runs is not None:
            self.size -= runs.size


class Caches:
    """Both halves of the write cache: one fills, the other is being flushed. Used on the loop only."""

    def __init__(self, active: WriteCache) -> None:
        self.active = active
        self._frozen: WriteCache | None = None

    def freeze(self) -> WriteCache:
        """Swap halves; the returned one changes no more and stays readable until `flushed`."""
        assert self._frozen is None, "one flush at a time"
        self._frozen, self.active = self.active, WriteCache()
        return self._frozen

    def flushed(self) -> None:
        """The frozen half is in entry log and index."""
        self._frozen = None

    @property
    def size(self) -> int:
        return self.active.size + (self._frozen.size if self._frozen is not None else 0)

    def entry(self, ledger_id: int, entry_id: int) -> StoredEntry | None:
        entry = self.active.entry(ledger_id, entry_id)
        if entry is None and self._frozen is not None:
            entry = self._frozen.entry(ledger_id, entry_id)
        return entry

    def consecutive(self, ledger_id: int, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """The entry and some that follow it; none if it is not here."""
        found = self.active.consecutive(ledger_id, entry_id, count_max)
        if not found and self._frozen is not None:
            found = self._frozen.consecutive(ledger_id, entry_id, count_max)
        return found

    def ranges(self, ledger_id: int) -> list[Range]:
        """Ranges of the ledger's entries in both halves."""
        halves = [self.active] if self._frozen is None else [self.active, self._frozen]
        return [found for half in halves for found in half.ranges(ledger_id)]

    def drop(self, ledger_id: int) -> None:
        """Forget a deleted ledger; what is being flushed of it is removed by the next checkpoint."""
        self.active.drop(ledger_id)
