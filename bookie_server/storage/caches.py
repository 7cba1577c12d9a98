"""The two halves of the write cache: one fills, the other is being flushed. Used on the loop only."""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.storage.ranges import Range
from bookie_server.storage.stored_entry import StoredEntry
from bookie_server.storage.write_cache import WriteCache


class Caches:
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
        """The entry and some that follow it at once; none if it is not here."""
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
