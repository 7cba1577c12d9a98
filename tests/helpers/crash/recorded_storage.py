"""A storage that is told what to do, and remembers what it was asked and what it has answered.

What it must hold after any crash lies between the two: everything answered, and nothing that was never asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from bookie_server.storage.ledger_storage import LedgerStorage
from tests.helpers.bookie.storage import KEY, EntryRun, add_run, durable, make_entry, set_lac

LARGE = bytes(range(256)) * 32
LARGE_FROM = 100
"""Ledgers from this id on have entries of 8 KiB."""


def entry_of(ledger_id: int, entry_id: int) -> memoryview:
    return make_entry(ledger_id, entry_id, payload=LARGE if ledger_id >= LARGE_FROM else None)


@dataclass(slots=True)
class Asked:
    """Of one ledger: each thing once as it was asked for, once as it was answered."""

    entries: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    fence: bool = False
    fenced: bool = False
    deletion: bool = False
    deleted: bool = False
    lac: int = -1
    lac_acked: int = -1


Ledgers = dict[int, Asked]


class RecordedStorage:
    """One process's storage; `ledgers` outlives it, for the next process."""

    def __init__(self, storage: LedgerStorage, ledgers: Ledgers) -> None:
        self.storage = storage
        self.ledgers = ledgers

    def _asked(self, ledger_id: int) -> Asked:
        return self.ledgers.setdefault(ledger_id, Asked())

    async def add(self, ledger_id: int, ids: Iterable[int]) -> None:
        chosen, asked = list(ids), self._asked(ledger_id)
        asked.entries.update(chosen)
        state = self.storage.ledger(ledger_id) or self.storage.create_ledger(ledger_id, KEY)
        run = EntryRun(chosen, [entry_of(ledger_id, entry_id) for entry_id in chosen])
        await durable(partial(add_run, self.storage, state, run))
        asked.acked.update(chosen)

    async def fence(self, ledger_id: int) -> None:
        asked = self._asked(ledger_id)
        asked.fence = True
        state = self.storage.ledger(ledger_id) or self.storage.create_ledger(ledger_id, KEY)
        await durable(partial(self.storage.fence, state))
        asked.fenced = True

    async def set_lac(self, ledger_id: int, lac: int) -> None:
        asked = self._asked(ledger_id)
        asked.lac = max(asked.lac, lac)
        state = self.storage.ledger(ledger_id) or self.storage.create_ledger(ledger_id, KEY)
        await durable(partial(set_lac, self.storage, state, b"packet %d" % lac, lac))
        asked.lac_acked = max(asked.lac_acked, lac)

    async def delete(self, ledger_id: int) -> None:
        asked = self._asked(ledger_id)
        asked.deletion = True
        await durable(partial(self.storage.delete_ledger, ledger_id))
        asked.deleted = True


def copy_of(ledgers: Ledgers) -> Ledgers:
    return deepcopy(ledgers)


async def check(storage: LedgerStorage, ledgers: Ledgers) -> None:
    """Entries, fences, LACs, limits and deletions lie between what was answered and what was asked for."""
    for ledger_id, asked in ledgers.items():
        state = storage.ledger(ledger_id)
        where = f"ledger {ledger_id}: {state}"
        if state is None:
            assert not (asked.acked or asked.fenced or asked.deleted or asked.lac_acked >= 0), where
            continue
        assert asked.deleted <= state.deleted <= asked.deletion, where
        behind = max(asked.entries, default=-1) + 3
        found = {entry_id for entry_id in range(behind) if await _holds(storage, ledger_id, entry_id)}
        if state.deleted:
            assert not found, f"{where} still has {sorted(found)}"
            continue
        assert asked.acked <= found, f"{where} lost {sorted(asked.acked - found)}"
        assert found <= asked.entries, f"{where} has ghosts {sorted(found - asked.entries)}"
        assert state.master_key == KEY, where
        assert asked.fenced <= state.fenced <= asked.fence, where
        assert asked.lac_acked <= state.explicit_lac_value <= asked.lac, where
        assert state.last_entry == max(found, default=-1), where
        lowest = max(asked.lac_acked, max(asked.acked, default=0) - 1)
        assert lowest <= state.lac <= max(asked.lac, max(asked.entries, default=0) - 1), where
    unknown = set(storage.ledger_ids()) - set(ledgers)
    assert not unknown, f"nobody ever spoke of ledgers {sorted(unknown)}"


async def _holds(storage: LedgerStorage, ledger_id: int, entry_id: int) -> bool:
    """Whether a read finds the entry; if so with its own bytes."""
    state = storage.ledger(ledger_id)
    entry = None if state is None else await storage.read(state, entry_id)
    assert entry is None or bytes(entry) == bytes(entry_of(ledger_id, entry_id)), (ledger_id, entry_id)
    return entry is not None
