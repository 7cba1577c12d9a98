"""Runs the storage's garbage collector for as long as the bookie serves.

Before each pass the metadata store must still be our cluster: in another one, or one formatted anew, every
ledger would look deleted.

Pitfall: docs/pitfalls.md#absence-from-one-listing.
"""

from __future__ import annotations

import asyncio
import logging

from bookie_server.storage.garbage_collector import GarbageCollector
from ledger.errors import LogStoreError
from ledger.metadata.store import MetadataStore

logger = logging.getLogger(__name__)


class GarbageTask:
    """One pass every `interval_s`."""

    def __init__(
        self, collector: GarbageCollector, store: MetadataStore, instance_id: str, interval_s: float
    ) -> None:
        self._collector = collector
        self._store = store
        self._instance_id = instance_id
        self._interval_s = interval_s
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._pass()
            except LogStoreError as error:
                logger.warning("garbage collection will be tried again: %s", error)

    async def _pass(self) -> None:
        if await self._store.instance_id() != self._instance_id:
            logger.error("%s holds another cluster now: nothing is collected", self._store.uri)
            return
        done = await self._collector.collect()
        if done.error is not None:
            raise done.error
        if done.deleted or done.removed_logs:
            logger.info("collected %d ledgers and %d entry logs", done.deleted, done.removed_logs)
