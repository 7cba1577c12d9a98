"""The write cache: entries accepted and not yet in an entry log. In memory only; the journal has them durably.

Entries are kept in runs of ascending ids: one list per run, and no object per entry other than its slice of the receive
buffer. There are two halves: one fills while the other, frozen, is flushed.

Invariant: runs of a ledger never overlap. The storage keeps repeated entries out, and a late run that falls into the
gaps of another is merged with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from bookie_server.storage.index import Interval
from bookie_server.storage.ranges import Range, dense_ranges, merge_ranges, ranges_between
from bookie_server.storage.stored_entry import StoredEntry

ENTRY_OVERHEAD_BYTES = 256
"""Memory of one slice and its share of the run and of the receive buffer, in addition to its bytes (measured)."""

Run = tuple[Sequence[int], Sequence[StoredEntry]]
"""Ascending entry ids (a range if dense) and the entries."""

PlacedBlock = tuple[Sequence[int], Interval]
"""Ids of one ledger, and where their block is."""

LONG_RUN = 32
"""Runs of at least this length stay as they came: to append them would cost more than a run does."""


class _MergedIds(list[int]):
    """Ids of a run that was merged: they and its entries are lists of its own, which may change."""


class LedgerRuns:
    """The runs of one ledger, ascending by first id.

    What a writer sends follows on what it sent before. If that is little at a time, the last run is open: what follows
    is appended to it, because a run for each entry would cost more than the entries.
    """

    __slots__ = ("_closed", "_firsts", "_following", "_open", "size")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._closed: list[Run] = []
        self._open: list[StoredEntry] = []
        """Entries with consecutive ids after those of the closed runs, up to the one before `_following`."""
        self._following = -1
        self.size = 0

    @property
    def runs(self) -> list[Run]:
        return [*self._closed, (self._open_ids(), self._open)] if self._open else self._closed

    def put(self, ids: Sequence[int], entries: Sequence[StoredEntry], size: int) -> None:
        self.size += size
        first, count = ids[0], len(ids)
        dense = ids[-1] - first + 1 == count
        short = dense and count < LONG_RUN
        if short and first == self._following:
            self._open += entries
            self._following += count
            return
        self._close()
        if self._closed and first <= self._closed[-1][0][-1]:
            self._merge(ids, entries)
        elif short:
            # A copy: the caller keeps its own list, and this one grows.
            self._open, self._following = list(entries), first + count
        else:
            self._closed.append((range(first, first + count) if dense else ids, entries))
            self._firsts.append(first)

    def _open_ids(self) -> range:
        return range(self._following - len(self._open), self._following)

    def _close(self) -> None:
        if self._open:
            ids = self._open_ids()
            self._closed.append((ids, self._open))
            self._firsts.append(ids[0])
            self._open, self._following = [], -1

    def _merge(self, ids: Sequence[int], entries: Sequence[StoredEntry]) -> None:
        """Put a late run in its place; runs it interleaves with become one run."""
        low = max(0, bisect_right(self._firsts, ids[0]) - 1)
        if self._closed[low][0][-1] < ids[0]:
            low += 1
        high = bisect_right(self._firsts, ids[-1])
        if high - low == 1 and self._inserted(self._closed[low], ids, entries):
            return
        pairs = dict(zip(ids, entries, strict=True))
        for run_ids, run_entries in self._closed[low:high]:
            pairs.update(zip(run_ids, run_entries, strict=True))
        merged = _MergedIds(sorted(pairs))
        self._firsts[low:high] = merged[:1]
        self._closed[low:high] = [(merged, [pairs[entry_id] for entry_id in merged])]

    def _inserted(self, run: Run, ids: Sequence[int], entries: Sequence[StoredEntry]) -> bool:
        """Whether what comes late fell into one gap of a merged run. To merge it would cost as much as the run is long,
        for each late entry again."""
        run_ids, run_entries = run
        if not isinstance(run_ids, _MergedIds) or not isinstance(run_entries, list):
            return False
        at = bisect_left(run_ids, ids[0])
        if run_ids[at] <= ids[-1]:
            return False  # it spans others, or is here already, as what is in a record twice
        run_ids[at:at] = ids
        run_entries[at:at] = entries
        return True

    def _found(self, entry_id: int) -> tuple[Run, int] | None:
        """The run that has the entry, and its index there."""
        index = entry_id - self._following + len(self._open)
        if 0 <= index < len(self._open):
            return (self._open_ids(), self._open), index
        at = bisect_right(self._firsts, entry_id) - 1
        if at < 0:
            return None
        run = self._closed[at]
        ids = run[0]
        index = bisect_left(ids, entry_id)
        return (run, index) if index < len(ids) and ids[index] == entry_id else None

    def entry(self, entry_id: int) -> StoredEntry | None:
        found = self._found(entry_id)
        if found is None:
            return None
        (_, entries), index = found
        return entries[index]

    def consecutive(self, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """The entry and those that follow it in its run, none if it is not here; fewer than there are is fine."""
        found = self._found(entry_id)
        if found is None:
            return ()
        (ids, entries), index = found
        return entries[index : index + (count_max if isinstance(ids, range) else 1)]


class WriteCache:
    """One half of the write cache."""

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerRuns] = {}
        self.placed: dict[int, list[PlacedBlock]] = {}
        """Blocks that are written once: durable in a journal file, where they stay."""
        self.size = 0

    def place(self, ledger_id: int, ids: Sequence[int], interval: Interval) -> None:
        """Entries that are here are durable there, too; nothing if the ledger was dropped."""
        if ledger_id in self.ledgers:
            self.placed.setdefault(ledger_id, []).append((ids, interval))

    def unplaced(self, ledger_id: int) -> list[Run]:
        """Runs of the ledger's entries that are in no such block, ascending."""
        runs, blocks = self.ledgers[ledger_id].runs, self.placed.get(ledger_id)
        if blocks is None:
            return runs
        placed = merge_ranges(each for ids, interval in blocks for each in _ranges_of(ids, interval))
        found: list[Run] = []
        for ids, entries in runs:
            for first, last in ranges_between(ids[0], ids[-1], placed):
                start, stop = bisect_left(ids, first), bisect_right(ids, last)
                if start < stop:
                    found.append((ids[start:stop], entries[start:stop]))
        return found

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
        self.placed.pop(ledger_id, None)
        if runs is not None:
            self.size -= runs.size


def _ranges_of(ids: Sequence[int], interval: Interval) -> Iterator[Range]:
    return iter([(interval.first, interval.last)]) if interval.dense else dense_ranges(ids)


class Caches:
    """Both halves of the write cache: one fills, the other is being flushed. Used on the loop only."""

    def __init__(self, active: WriteCache) -> None:
        self.active = active
        self._frozen: WriteCache | None = None

    def freeze(self) -> WriteCache:
        """Swap halves; the returned one takes no more entries and stays readable until `flushed`."""
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
        """Forget a deleted ledger; what is being flushed of it is removed by the next checkpoint, or, if a full disk
        holds that up, by its next try.
        """
        self.active.drop(ledger_id)
