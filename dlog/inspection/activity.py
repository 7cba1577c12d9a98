"""How fast the logs of a namespace grow, as seen from outside. Fences nothing and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from dlog.admin import LogInfo
from dlog.cache.metadata_cache import MetadataCache
from dlog.client import LogClient
from dlog.errors import HistoryPageError
from dlog.inspection.unsealed import NewestLedgers, newest_ledgers
from dlog.ledger_list.totals import ListTotals, totals_of
from dlog.model import LogMetadata, LogName, MessageId
from dlog.read.backlog import Amount
from dlog.read.tail import opener
from ledger.errors import CorruptionError, LedgerNotFoundError, UnauthorizedError, UnavailableError
from ledger.model import LedgerId, LedgerMetadata

_LOGS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class LogActivity:
    """One log at one instant.

    `tail` is None if too few bookies respond to determine it, metadata is damaged, or the log has another password.
    """

    info: LogInfo
    totals: ListTotals
    """Of the sealed ledgers."""
    tail: MessageId | None
    entries_per_s: float | None
    """Since the measurement before; None at the first one, or without a tail."""
    newest: LedgerMetadata | None
    """Metadata of the log's last ledger, if it has one."""
    open: Amount | None = None
    """What is readable in the open ledger; None if that is unknown."""


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
        self._forget_all_but({info.ref.name for info in infos})
        found = await asyncio.gather(*(self._measure(info) for info in infos))
        return sorted(found, key=lambda each: (-(each.entries_per_s or 0.0), str(each.info.ref.name)))

    def _forget_all_but(self, logs: set[LogName]) -> None:
        """The others were deleted, or are not followed any more: their ledgers would be watched for good."""
        for log in [log for log in self._newest if log not in logs]:
            self._cache.forget(self._newest.pop(log))
        for log in [log for log in self._before if log not in logs]:
            del self._before[log]

    async def _measure(self, info: LogInfo) -> LogActivity:
        async with self._limit:
            now = asyncio.get_running_loop().time()
            found = await self._newest_ledgers(info)
            record, tail = (info.record, None) if found is None else (found.record, found.tail)
            totals = await self._totals(info, record)
        before = self._before.get(info.ref.name)
        rate = None
        if found is not None and tail is not None:
            self._before[info.ref.name] = (now, tail)
            if before is not None and now > before[0] and tail >= before[1]:
                rate = entries_between(found.ends, before[1], tail) / (now - before[0])
        of_open = None if found is None else found.open
        return LogActivity(info, totals, tail, rate, await self._newest_ledger(info), of_open)

    async def _totals(self, info: LogInfo, record: LogMetadata) -> ListTotals:
        """By the cached record. If a page of it was removed, the record is read again for the next measurement."""
        try:
            return await self._client.logs.ledger_list(info.ref, record).totals()
        except (HistoryPageError, UnavailableError):
            self._cache.refresh(info.ref.name)
            return totals_of(record.pages, record.ledgers)

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

    async def _newest_ledgers(self, info: LogInfo) -> NewestLedgers | None:
        """By the cached record. If a ledger of it is deleted, the record is read again for the next measurement."""
        open_ledger = opener(self._client.ledgers, self._client.config.password)
        try:
            return await newest_ledgers(info.record, open_ledger)
        except LedgerNotFoundError:
            self._cache.refresh(info.ref.name)
            return None
        except (UnavailableError, CorruptionError, UnauthorizedError):
            return None  # the cache reports metadata that is damaged


def entries_between(ends: Mapping[int, int], before: MessageId, tail: MessageId) -> int:
    """Number of entries from one tail of the log to a later one. `ends`: number of entries of its newest ledgers."""
    if before.ledger_id == tail.ledger_id:
        return tail.entry_id - before.entry_id
    rest = max(0, ends.get(before.ledger_id, before.entry_id) - before.entry_id)
    between = (count for ledger_id, count in ends.items() if before.ledger_id < ledger_id < tail.ledger_id)
    return rest + sum(between) + tail.entry_id
