"""C15: what one bookie answers to reads agrees with what it has acknowledged, at every instant.

Clients ask several bookies, so that one which denies what it holds is mostly hidden by the others: a run shows it
only if all others are silent at that moment. So each answer is compared where it is given. A bookie that has
acknowledged an entry never says that it is absent, and never that it does not know the ledger, until the ledger is
deleted; an error says neither. And an entry that it returns is the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bookie_server.protocol.service import BookieService, Found
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire.constants import LAST_ENTRY
from ledger.wire.status import Status

_ENTRY_ID = slice(8, 16)


class AcknowledgedEntries:
    """The entries that one bookie has acknowledged, over all its lives, and the answers that contradict them.

    What it may have in addition, because storage had it when the process died, is in `DurableEntries`.
    """

    def __init__(self, broken: Callable[[str], None]) -> None:
        """`broken` is called with each contradiction, as a sentence."""
        self._broken = broken
        self._entries: dict[int, set[int]] = {}
        self._deleted: set[int] = set()

    def acknowledged(self, ledger_id: int, entry_ids: list[int]) -> None:
        """Adds of these entries were answered with EOK."""
        if ledger_id not in self._deleted:
            self._entries.setdefault(ledger_id, set()).update(entry_ids)

    def so_far(self) -> dict[int, frozenset[int]]:
        """Of each ledger."""
        return {ledger_id: frozenset(entries) for ledger_id, entries in self._entries.items()}

    def forget(self, ledger_id: int) -> None:
        """The ledger is being deleted: from now on nothing is promised of it."""
        self._entries.pop(ledger_id, None)
        self._deleted.add(ledger_id)

    def listen(self, service: BookieService) -> None:
        """Compare every answer of this process, and end with it."""
        outer: Any = service
        outer.ledger = partial(self._ledger, service.ledger)
        outer.read_cached = partial(self._read_cached, service.read_cached)
        outer.read = partial(self._read, service.read)
        outer.read_batch = partial(self._read_batch, service.read_batch)

    def _ledger(self, ledger: Callable[[int], StoredLedger | None], ledger_id: int) -> StoredLedger | None:
        found = ledger(ledger_id)
        if (found is None or found.deleted) and self._entries.get(ledger_id):
            self._broken(f"does not know ledger {ledger_id}, of which it has acknowledged entries")
        return found

    def _read_cached(
        self, read_cached: Callable[..., StoredEntry | None], ledger: StoredLedger, entry_id: int
    ) -> StoredEntry | None:
        entry = read_cached(ledger, entry_id)
        if entry is not None:
            self._compare(ledger.ledger_id, entry_id, self._last(ledger.ledger_id), entry)
        return entry

    async def _read(self, read: Any, ledger: StoredLedger, entry_id: int) -> Found:
        has_it, last = self._has(ledger.ledger_id, entry_id), self._last(ledger.ledger_id)
        found: Found = await read(ledger, entry_id)
        if found.status is Status.EOK:
            self._compare(ledger.ledger_id, entry_id, last, found.entry)
        elif found.status is Status.ENOENTRY and has_it:
            self._denied(ledger, entry_id)
        return found

    async def _read_batch(
        self, read_batch: Any, ledger: StoredLedger, first: int, max_count: int, max_bytes: int
    ) -> tuple[Status, list[StoredEntry]]:
        has_it, last = self._has(ledger.ledger_id, first), self._last(ledger.ledger_id)
        status, entries = await read_batch(ledger, first, max_count, max_bytes)
        if status is Status.EOK:
            for offset, entry in enumerate(entries):
                wanted = LAST_ENTRY if first == LAST_ENTRY else first + offset
                self._compare(ledger.ledger_id, wanted, last, entry)
        elif status is Status.ENOENTRY and has_it:
            self._denied(ledger, first)
        return status, entries

    # ---- comparing

    def _has(self, ledger_id: int, entry_id: int) -> bool:
        entries = self._entries.get(ledger_id, set())
        return bool(entries) if entry_id == LAST_ENTRY else entry_id in entries

    def _last(self, ledger_id: int) -> int:
        return max(self._entries.get(ledger_id, ()), default=-1)

    def _compare(self, ledger_id: int, wanted: int, last: int, entry: StoredEntry) -> None:
        found = int.from_bytes(entry[_ENTRY_ID], "big", signed=True)
        if wanted == LAST_ENTRY:
            if found < last and ledger_id in self._entries:
                self._broken(f"returned {ledger_id}:{found} as its last entry, but has acknowledged {last}")
        elif found != wanted:
            self._broken(f"returned entry {ledger_id}:{found} for {ledger_id}:{wanted}")

    def _denied(self, ledger: StoredLedger, entry_id: int) -> None:
        if ledger.ledger_id in self._entries:  # not deleted during the read
            what = "any entry of" if entry_id == LAST_ENTRY else f"entry {entry_id} of"
            self._broken(f"denies {what} ledger {ledger.ledger_id}, which it has acknowledged")
