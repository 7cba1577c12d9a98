"""The states of all ledgers: a bounded part in memory, the rest in the index.

Invariant: a ledger has at most one state object at a time (two objects would be two fences). A state
that differs from the index's durable record is held here until a checkpoint has stored it.

Pitfall: docs/pitfalls.md#fence-overtakes-an-add.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from weakref import WeakValueDictionary

from bookie_server.disk.disk import DiskWorker
from bookie_server.storage.index import Index, state_record
from bookie_server.storage.ledgers.stored_ledger import StoredLedger


class StoredLedgers:
    def __init__(self, index: Index, states_max: int) -> None:
        self._index = index
        self._states_max = states_max
        self._live: WeakValueDictionary[int, StoredLedger] = WeakValueDictionary()
        self._recent: OrderedDict[int, StoredLedger] = OrderedDict()
        self._dirty: dict[int, StoredLedger] = {}
        self._storing: dict[int, StoredLedger] = {}
        self.created_count = 0
        """Of states that were created since a checkpoint last took what changed."""
        self.limbo = False

    def set_limbo(self, limbo: bool) -> None:
        """Part of the journal was lost (or all was checked since): it holds for every ledger."""
        self.limbo = limbo
        for state in list(self._live.values()):
            state.limbo = limbo

    def get(self, ledger_id: int) -> StoredLedger | None:
        """The ledger's only state object, None if it was certainly never here. StorageError."""
        # Nearly all are among the recent ones, and a weak look-up costs three times as much.
        state = self._recent.get(ledger_id) or self._live.get(ledger_id)
        if state is None:
            state = self._index.state(ledger_id)
            if state is not None:
                self._keep(state)
        return state

    def in_memory(self, ledger_id: int) -> StoredLedger | None:
        """The state, if it takes no look at the disk."""
        return self._live.get(ledger_id)

    def _keep(self, state: StoredLedger) -> None:
        state.limbo = self.limbo
        self._live[state.ledger_id] = state
        self._recent[state.ledger_id] = state
        if len(self._recent) > self._states_max:
            self._recent.popitem(last=False)

    def create(self, ledger_id: int, master_key: bytes) -> StoredLedger:
        """A state for a ledger that `get` does not know."""
        state = StoredLedger(ledger_id, master_key)
        self._keep(state)
        self.changed(state)
        self.created_count += 1
        return state

    def changed(self, state: StoredLedger) -> None:
        """The state differs from its record in the index."""
        self._dirty[state.ledger_id] = state

    @property
    def changed_count(self) -> int:
        """Of states that no checkpoint has taken yet."""
        return len(self._dirty)

    def take_changed(self) -> list[tuple[bytes, bytes]]:
        """Records of all changed states, for a checkpoint that ends in `stored`."""
        self._storing, self._dirty = self._dirty, {}
        self.created_count = 0
        return [state_record(state) for state in self._storing.values()]

    def records(self, ledger_ids: Iterable[int]) -> list[tuple[bytes, bytes]]:
        """Records of changed states, which stay changed: a checkpoint that is under way stores them too."""
        return [state_record(self._dirty[ledger_id]) for ledger_id in ledger_ids]

    def stored(self) -> None:
        """The records last taken are durable."""
        self._storing = {}

    def ledger_ids(self) -> list[int]:
        """Ascending ids of ledgers that are here and not deleted. Scans the index where it is called. StorageError."""
        return self._with_unstored(list(self._index.ledger_ids()), self._unstored())

    def newest(self, limit: int) -> int | None:
        """The highest id, up to `limit`, of a ledger that is or was here. Reads the index where it is called.

        StorageError.
        """
        stored = self._index.newest_ledger(limit)
        unstored = (each for each in self._unstored() if each <= limit)
        return max((*unstored, *(() if stored is None else (stored,))), default=None)

    async def list_ledgers(self, worker: DiskWorker) -> list[int]:
        """As `ledger_ids`, but the scan runs in the storage's worker, between two checkpoints."""
        before = self._unstored()
        found = await worker.run(lambda: list(self._index.ledger_ids()))
        # What was new before the scan may have been stored after it, so that it is in neither of the others.
        return self._with_unstored(found, before | self._unstored())

    def _unstored(self) -> dict[int, StoredLedger]:
        return self._storing | self._dirty

    def _with_unstored(self, found: list[int], unstored: dict[int, StoredLedger]) -> list[int]:
        for ledger_id, state in unstored.items():
            at = bisect_left(found, ledger_id)
            is_there = at < len(found) and found[at] == ledger_id
            if state.deleted and is_there:
                del found[at]
            elif not state.deleted and not is_there:
                found.insert(at, ledger_id)
        return found
