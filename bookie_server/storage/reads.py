"""Reads of a bookie's storage: from memory, else from the entry logs; and the proof that an entry is absent.

Invariant: `None`, -1 and an empty list mean *proved absent*. Whatever prevents the proof (limbo, damage, a lost last
entry) is a StorageError.

Pitfalls: docs/pitfalls.md#damage-answered-as-absence, #doubt-answered-as-absence.
"""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.errors import LimboError, StorageError
from bookie_server.storage.entry_reader import EntryReader
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.ledgers.stored_ledgers import StoredLedgers
from bookie_server.storage.ranges import merge_ranges
from bookie_server.storage.stored_entry import StoredEntry
from bookie_server.storage.write_cache import Caches
from ledger.errors import LogStoreError

_AT_ONCE_MAX = 1024
"""Entries taken from memory in one step of a batch read; bounds what is sliced and then does not fit."""


class StorageReads:
    """The reading half of LedgerStorage."""

    def __init__(self, states: StoredLedgers, caches: Caches, reader: EntryReader) -> None:
        self._states = states
        self._caches = caches
        self._reader = reader

    @property
    def limbo(self) -> bool:
        """A start accepted journal damage: absence is not proved until `clear_limbo`.

        docs/bookkeeper.md#limbo, docs/pitfalls.md#doubt-answered-as-absence.
        """
        return self._states.limbo

    def read_cached(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        """The entry if it is in memory. None proves nothing: call `read`."""
        ledger_id = state.ledger_id
        entry = self._caches.entry(ledger_id, entry_id)
        # A block may go on after the last entry: with what a checkpoint left that did not come to store the state.
        if entry is None and entry_id <= state.last_entry:
            block = self._reader.cached_block(ledger_id, entry_id)
            entry = None if block is None else block.entry(entry_id)
        return entry

    async def read(self, state: StoredLedger, entry_id: int) -> StoredEntry | None:
        """Read an entry as stored; None if it is proved absent.

        Raises:
            StorageError: the entry cannot be read, or its absence cannot be proved.
        """
        entry = None if state.deleted else self.read_cached(state, entry_id)
        if entry is None and 0 <= entry_id <= state.last_entry and not state.deleted:
            blocks = await self._reader.load(state.ledger_id, entry_id)
            entry = blocks[0].entry(entry_id) if blocks else None
            # During the wait a late add may have put it into memory.
            entry = entry or self._caches.entry(state.ledger_id, entry_id)
        if entry is None:
            self._check_absence(state)
            _require_not_lost(state, entry_id)
        return entry

    def _check_absence(self, state: StoredLedger) -> None:
        if state.limbo or self.limbo:
            raise LimboError(
                f"ledger {state.ledger_id} is in limbo: entries may have been lost; ask another bookie",
                ledger_id=state.ledger_id,
            )

    async def read_batch(
        self, state: StoredLedger, first: int, max_count: int, max_bytes: int
    ) -> list[StoredEntry]:
        """Consecutive entries from `first` on, up to the first gap; empty if `first` is proved absent.

        Stops at `max_count` entries (no limit if 0 or less), or before the entries plus 4 bytes each exceed
        `max_bytes`. The first entry is returned whatever its size.

        Raises:
            StorageError: the first entry cannot be read, or its absence cannot be proved.
        """
        found: list[StoredEntry] = []
        room = max_bytes
        while 0 <= first <= state.last_entry and not state.deleted and not 0 < max_count <= len(found):
            wanted = max_count - len(found) if max_count > 0 else _AT_ONCE_MAX
            wanted = min(wanted, _AT_ONCE_MAX, state.last_entry - first + 1)
            run = self._consecutive(state.ledger_id, first, wanted)
            if not run:
                run = await self._load_next(state, first, wanted, tolerant=bool(found))
                if not run:
                    break
            first += len(run)
            for entry in run:
                room -= len(entry) + 4
                if room < 0 and found:
                    return found
                found.append(entry)
        if not found:
            self._check_absence(state)
            _require_not_lost(state, first)
        return found

    def _consecutive(self, ledger_id: int, entry_id: int, count_max: int) -> Sequence[StoredEntry]:
        """The entry and some that follow it, if they are in memory: a batch then costs little per entry."""
        found: Sequence[StoredEntry] = self._caches.consecutive(ledger_id, entry_id, count_max)
        if not found:
            block = self._reader.cached_block(ledger_id, entry_id)
            found = () if block is None else block.consecutive(entry_id, count_max)
        return found

    async def _load_next(
        self, state: StoredLedger, entry_id: int, count_max: int, *, tolerant: bool
    ) -> Sequence[StoredEntry]:
        """The entry and some that follow it, from disk."""
        try:
            blocks = await self._reader.load(state.ledger_id, entry_id, sequential=True)
        except LogStoreError:
            if tolerant:
                return ()
            raise
        run: list[StoredEntry] = []
        for block in blocks:
            # A block with gaps gives its entry also if none is wanted.
            if len(run) == count_max or not (
                following := block.consecutive(entry_id + len(run), count_max - len(run))
            ):
                break
            run += following
        if not run and (added := self._caches.entry(state.ledger_id, entry_id)) is not None:
            run.append(added)
        return run

    def last_entry(self, state: StoredLedger) -> int:
        """Highest entry id accepted, -1 for none.

        Raises:
            LimboError: the ledger is in limbo.
        """
        self._check_absence(state)
        return state.last_entry

    async def held_ranges(self, ledger_id: int) -> list[tuple[int, int]]:
        """Ascending, disjoint ranges of the entries that a read finds. What is in none of them need not be absent.

        Raises:
            StorageError: the index cannot be read, or a block whose entries it does not name.
        """
        state = self._states.get(ledger_id)
        if state is None or state.deleted:
            return []
        # An entry that is added later may be flushed before the answer comes: then it is in neither of the two.
        last_entry = state.last_entry
        cached = self._caches.ranges(ledger_id)
        stored = await self._reader.ranges(ledger_id)
        # After the last entry: left by a checkpoint that a crash ended before it stored the ledger's state.
        merged = merge_ranges([*cached, *stored])
        return [(first, min(last, last_entry)) for first, last in merged if first <= last_entry]

    async def entry_ranges(self, state: StoredLedger) -> list[tuple[int, int]]:
        """Ascending, disjoint (first, last) ranges of all entries stored when this is called.

        Raises:
            LimboError: the ledger is in limbo.
            StorageError: the index cannot be read, or has lost the last entry.
        """
        self._check_absence(state)
        last_entry = state.last_entry
        found = await self.held_ranges(state.ledger_id)
        if last_entry >= 0 and not state.deleted and (not found or found[-1][1] < last_entry):
            raise _lost(state, last_entry)
        return found


def _require_not_lost(state: StoredLedger, entry_id: int) -> None:
    """StorageError if the entry, which was not found, is the last one: that was accepted, so it was lost."""
    if entry_id == state.last_entry and entry_id >= 0 and not state.deleted:
        raise _lost(state, entry_id)


def _lost(state: StoredLedger, entry_id: int) -> StorageError:
    return StorageError(
        f"entry {entry_id} of ledger {state.ledger_id}, the last one accepted, is missing in the index or the "
        "entry log: read it from another bookie",
        ledger_id=state.ledger_id,
        entry_id=entry_id,
    )
