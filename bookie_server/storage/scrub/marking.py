"""Marks ledgers as under-replicated on this bookie, for a worker of repair to find."""

from __future__ import annotations

from contextlib import suppress

from ledger.environment import Environment
from ledger.errors import LedgerNotFoundError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId


class RepairMarks:
    def __init__(self, store: MetadataStore, bookie_id: BookieId, environment: Environment) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._environment = environment

    async def mark(self, ledger_id: LedgerId) -> None:
        """Nothing for a ledger that does not name this bookie, or was deleted. LogStoreError: not marked."""
        with suppress(LedgerNotFoundError):  # deleted: garbage collection has not come to it yet
            metadata = (await self._store.read_ledger(ledger_id)).value
            if self._bookie_id in metadata.members():
                wall_ms = self._environment.wall_us() // 1000
                await self._store.repair.mark(ledger_id, {self._bookie_id}, wall_ms)
