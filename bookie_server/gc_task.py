"""Gives back the space of ledgers that are gone from the metadata.

Order, and why: the local ids are taken first and the metadata is listed after, so a ledger created meanwhile
is not local yet; what the listing lacks is only a candidate. A candidate is deleted when it was one in the
pass before too, and a read of its own metadata proves it absent; every error keeps it. One pass takes at most
a share of what is stored, so that a store restored from the wrong backup costs little before it is noticed,
and a store that is no longer our cluster costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from bookie_server.long_poll import LacWatchers
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.errors import LedgerNotFoundError, LogStoreError
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId

logger = logging.getLogger(__name__)

PASS_COUNT_MIN = 100
"""So many may always go in one pass, or small bookies would never be cleaned."""
PASS_SHARE_MAX = 0.25


def pass_limit(stored_count: int) -> int:
    """How many ledgers one pass may delete."""
    return max(PASS_COUNT_MIN, int(stored_count * PASS_SHARE_MAX))


async def missing_from(local_ids: Sequence[int], listed: AsyncIterator[LedgerId]) -> list[int]:
    """Local ids that a complete listing does not have; both ascend. An error of the listing is raised."""
    missing: list[int] = []
    position = 0
    async for ledger_id in listed:
        while position < len(local_ids) and local_ids[position] < ledger_id:
            missing.append(local_ids[position])
            position += 1
        if position < len(local_ids) and local_ids[position] == ledger_id:
            position += 1
    missing += local_ids[position:]
    return missing


class GarbageTask:
    """One pass every `interval_s`, as long as the bookie runs."""

    def __init__(
        self,
        storage: LedgerStorage,
        store: MetadataStore,
        watchers: LacWatchers,
        instance_id: str,
        interval_s: float,
    ) -> None:
        self._storage = storage
        self._store = store
        self._watchers = watchers
        self._instance_id = instance_id
        self._interval_s = interval_s
        self._candidates: frozenset[int] = frozenset()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def collect(self) -> int:
        """One pass; how many ledgers were deleted. Raises what the stores raise."""
        if await self._store.instance_id() != self._instance_id:
            logger.error("the metadata store holds another cluster now: nothing is collected")
            return 0
        local_ids = list(self._storage.ledger_ids())
        missing = await missing_from(local_ids, self._store.ledger_ids())
        deleted = 0
        for ledger_id in missing:
            if ledger_id in self._candidates and await self._proved_absent(ledger_id):
                await self._delete(ledger_id)
                deleted += 1
                if deleted == pass_limit(len(local_ids)):
                    break
        self._candidates = frozenset(missing)
        await self._storage.remove_dead_logs()
        return deleted

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                deleted = await self.collect()
            except LogStoreError as error:
                logger.warning("garbage collection stopped early and will be tried again: %s", error)
            else:
                if deleted:
                    logger.info("collected %d deleted ledgers", deleted)

    async def _proved_absent(self, ledger_id: int) -> bool:
        try:
            await self._store.read_ledger(LedgerId(ledger_id))
        except LedgerNotFoundError:
            return True
        return False

    async def _delete(self, ledger_id: int) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def durable(error: Exception | None) -> None:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self._storage.delete_ledger(ledger_id, durable)
        self._watchers.fenced(ledger_id)
        await done
