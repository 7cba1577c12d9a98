"""A metadata store that loses answers as its script says: the memory driver, with faults in front."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieSet

APPLIED = "applied, answer lost"
DROPPED = "dropped, answer lost"
LATE = "answer lost, applied just before the next change"
AWAY = "certainly not made"


class UnsureStore:
    """Delegates to `inner`; each record change takes the next fault of `faults`, if any is left."""

    def __init__(self, inner: MetadataStore, *faults: str | None) -> None:
        self._inner = inner
        self.faults = list(faults)
        self.reads_away = 0
        self.away = False
        self.forgetful = False
        """Whether its bookies do not promise to remember what was deleted, as Apache's do not."""
        self._late: Callable[[], Awaitable[Any]] | None = None
        self.before_fault: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def bookies(self) -> BookieSet:
        found = await self._inner.bookies()
        if not self.forgetful:
            return found
        return BookieSet(
            writable=tuple(replace(info, properties=()) for info in found.writable),
            read_only=tuple(replace(info, properties=()) for info in found.read_only),
        )

    async def create_record(self, key: str, value: bytes) -> int:
        return await self._change(lambda: self._inner.create_record(key, value))

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        return await self._change(lambda: self._inner.write_record(key, value, version))

    async def remove_record(self, key: str, version: int) -> None:
        await self._change(lambda: self._inner.remove_record(key, version))

    async def read_record(self, key: str, *, fresh: bool = True) -> Any:
        if self.away or self.reads_away:
            self.reads_away = max(0, self.reads_away - 1)
            raise MetadataUnavailableError("the store is away")
        return await self._inner.read_record(key, fresh=fresh)

    async def _change(self, change: Callable[[], Awaitable[Any]]) -> Any:
        late, self._late = self._late, None
        if late is not None:
            await late()
        fault = AWAY if self.away else self.faults.pop(0) if self.faults else None
        if fault is None:
            return await change()
        if fault == AWAY:
            raise MetadataUnavailableError("the store is away")
        if fault == APPLIED:
            await change()
        if fault == LATE:
            self._late = change
        if self.before_fault is not None:
            await self.before_fault()
        raise MetadataOutcomeUnknownError("the answer was lost")
