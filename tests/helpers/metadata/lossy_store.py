"""A store whose answers to `write_ledger` get lost in a scripted way; everything else is the driver's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from typing import Any

from ledger.errors import LogStoreError, MetadataOutcomeUnknownError, MetadataVersionError
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId, LedgerMetadata, Versioned


class Fate(Enum):
    """What becomes of one write."""

    ANSWERED = 1
    APPLIED = 2
    """Done; the answer is lost."""
    DROPPED = 3
    """Never done; the answer is lost."""
    LATE = 4
    """The answer is lost; the write arrives after the next read."""


class LossyStore:
    def __init__(self, store: MetadataStore, fates: Iterable[Fate]) -> None:
        self._store = store
        self._fates = deque(fates)
        self._under_way: Callable[[], Coroutine[Any, Any, int]] | None = None
        self.read_error: LogStoreError | None = None
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        if self.read_error is not None:
            raise self.read_error
        found = await self._store.read_ledger(ledger_id)
        await self.settle()
        return found

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        self.writes += 1
        match self._fates.popleft() if self._fates else Fate.ANSWERED:
            case Fate.ANSWERED:
                return await self._store.write_ledger(ledger_id, metadata, version)
            case Fate.APPLIED:
                await self._apply(ledger_id, metadata, version)
            case Fate.LATE:
                self._under_way = lambda: self._store.write_ledger(ledger_id, metadata, version)
            case Fate.DROPPED:
                pass
        raise MetadataOutcomeUnknownError("the answer was lost")

    async def settle(self) -> None:
        """Let a late write arrive."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            try:
                await under_way()
            except MetadataVersionError:
                return

    async def _apply(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> None:
        try:
            await self._store.write_ledger(ledger_id, metadata, version)
        except MetadataVersionError:
            return
