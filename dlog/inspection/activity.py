"""How fast the logs of a namespace grow, as seen from outside. Fences nothing and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from dlog.admin import LogInfo
from dlog.cache.metadata_cache import MetadataCache
from dlog.client import LogClient
from dlog.errors import HistoryPageError
from dlog.ledger_list.totals import ListTotals, totals_of
from dlog.model import LogName, MessageId
from dlog.read.tail import end_of, opener
from ledger.errors import LedgerNotFoundError, UnavailableError
from ledger.model import LedgerId, LedgerMetadata

_LOGS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class LogActivity:
    """One log at one instant. `tail` is None if too few bookies respond to determine it."""

    info: LogInfo
    totals: ListTotals
    tail: MessageId | None
    entries_per_s: float | None
    """Since the measurement before; None at the first one, or without a tail."""
    newest: LedgerMetadata | None
    """Metadata of the log's last ledger, if it has one."""


class ActivityMonitor:
    """Measures the logs that the cache follows."""

    def __init__(self, client: LogClient, cache: MetadataCache) -> None:
        self._client = client
        self._cache = cache
        self._before: dict[LogName, tuple[float, MessageId]] = {}
        self._newest: dict[LogName, LedgerId] = {}
        self._limit = asyncio.Semaphore(_LOGS_AT_ONCE)

    async def measure(self) -> list[LogActivity]:
        """The logs as of now, the busiest first."""
        infos = list(self._cache.snapshot.logs.values())
        found = await asyncio.gather(*(self._measure(info) for info in infos))
        return sorted(found, key=lambda each: (-(each.entries_per_s or 0.0), str(each.info.ref.name)))

    async def _measure(self, info: LogInfo) -> LogActivity:
        async with self._limit:
            now = asyncio.get_running_loop().time()
            ends = await self._ends(info)
            totals = await self._totals(info)
        before = self._before.get(info.ref.name)
        tail, rate = None, None
        if ends is not None:
            tail = max(info.record.trim_before, MessageId(*max(ends.items(), default=(0, 0)), 0))
            self._before[info.ref.name] = (now, tail)
            if before is not None and now > before[0] and tail >= before[1]:
                rate = entries_between(ends, before[1], tail) / (now - before[0])
        return LogActivity(info, totals, tail, rate, await self._newest_ledger(info))

    async def _totals(self, info: LogInfo) -> ListTotals:
        """By the cached record. If a page of it was removed, the record is read again for the next measurement."""
        try:
            return await self._client.logs.ledger_list(info.ref, info.record).totals()
        except (HistoryPageError, UnavailableError):
            self._cache.refresh(info.ref.name)
            return totals_of(info.record.pages, info.record.ledgers)

    async def _newest_ledger(self, info: LogInfo) -> LedgerMetadata | None:
        listed, before = info.record.tail, self._newest.get(info.ref.name)
        if before is not None and (listed is None or listed.ledger_id != before):
            self._cache.forget(self._newest.pop(info.ref.name))
        if listed is None:
            return None
        self._newest[info.ref.name] = listed.ledger_id
        try:
            await self._cache.follow_ledgers([listed.ledger_id])
        except UnavailableError:
            return None
        return self._cache.snapshot.ledger(listed.ledger_id)

    async def _ends(self, info: LogInfo) -> dict[int, int] | None:
        """Number of readable entries of each of the newest ledgers up to the tail; None if bookies do not respond.

        By the cached record. If a ledger of it is deleted, the record is read again for the next measurement.
        """
        open_ledger = opener(self._client.ledgers, self._client.config.password)
        ends: dict[int, int] = {}
        try:
            for listed in info.record.ledgers:
                last, sealed = await end_of(listed, open_ledger)
                ends[listed.ledger_id] = last + 1
                if not sealed:
                    break
        except LedgerNotFoundError:
            self._cache.refresh(info.ref.name)
            return None
        except UnavailableError:
            return None
        return ends


def entries_between(ends: Mapping[int, int], before: MessageId, tail: MessageId) -> int:
    """Number of entries from one tail of the log to a later one. `ends`: number of entries of its newest ledgers."""
    if before.ledger_id == tail.ledger_id:
        return tail.entry_id - before.entry_id
    rest = max(0, ends.get(before.ledger_id, before.entry_id) - before.entry_id)
    between = (count for ledger_id, count in ends.items() if before.ledger_id < ledger_id < tail.ledger_id)
    return rest + sum(between) + tail.entry_id
