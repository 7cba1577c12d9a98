"""Which entries one bookie may have, over all its lives; for checks that look at one instant.

An entry counts as soon as storage reports it durable, also if the bookie dies before it answers the add: a check that
counts copies must not take it for missing. `AcknowledgedEntries` (instants/denials.py) has the opposite bound, what the
bookie must have: only adds that were answered with EOK, and none of a ledger that is being deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bookie_server.errors import EntryConflictError
from bookie_server.storage.ledger_storage import LedgerStorage, OnAddsDurable
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import EntryRun

_Adds = Sequence[tuple[StoredLedger, EntryRun]]


class DurableEntries:
    def __init__(self) -> None:
        self._durable: dict[int, set[int]] = {}
        self._before: dict[int, int] = {}
        """Of each ledger the last entry that was there before the process was listened to; any below may be durable."""
        self._storage: LedgerStorage | None = None
        self._heard_of: set[int] = set()
        """Ledgers of which any of its processes got an entry, stored or not."""

    def hold(self, storage: LedgerStorage) -> None:
        """A process is about to serve: stand in front of its storage until it ends."""
        self._storage, self._before = storage, {}
        outer: Any = storage
        outer.add = partial(self._add, storage.add)

    def release(self) -> None:
        """The process has ended."""
        self._storage = None

    def certainly_lacks(self, ledger_id: int, entry_id: int) -> bool:
        """Whether the bookie serves and has not said that the entry is durable. Disturbs nothing."""
        if self._storage is None or entry_id in self._durable.get(ledger_id, ()):
            return False
        state = self._storage.ledger_in_memory(ledger_id)
        if state is None:
            return ledger_id not in self._heard_of
        if state.deleted:
            return False
        return self._before.get(ledger_id, state.last_entry) < entry_id

    def reported(self, ledger_id: int, entry_id: int) -> bool:
        """Whether any of its processes has said that the entry is durable."""
        return entry_id in self._durable.get(ledger_id, ())

    def _add(self, add: Any, adds: _Adds, on_durable: OnAddsDurable[EntryRun]) -> None:
        for state, _ in adds:
            self._before.setdefault(state.ledger_id, state.last_entry)
            self._heard_of.add(state.ledger_id)

        def answered(some: _Adds, error: Exception | None) -> None:
            if error is None or isinstance(error, EntryConflictError):
                for state, run in some:
                    self._durable.setdefault(state.ledger_id, set()).update(run.ids)
            on_durable(some, error)

        add(adds, answered)
