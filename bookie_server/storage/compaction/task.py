"""Minor and major compactions of a bookie, each at its interval.

Times are the event loop's, so the machine's clock may be wrong or jump.
"""

from __future__ import annotations

import asyncio
import logging

from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.errors import LogStoreError

logger = logging.getLogger(__name__)


class CompactionTask:
    """Compacts for as long as the bookie serves."""

    def __init__(self, storage: LedgerStorage, config: StorageConfig) -> None:
        self._storage = storage
        self._config = config
        self._refusal = ""
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._minor_at = self._now() + config.minor_compaction_interval_s
        self._major_at = self._now() + config.major_compaction_interval_s
        self._task = loop.create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        intervals = (self._config.minor_compaction_interval_s, self._config.major_compaction_interval_s)
        if not any(intervals):
            return
        while self._storage.failed is None:
            await asyncio.sleep(min(each for each in intervals if each))
            try:
                await self._compact(self._threshold_now())
            except LogStoreError as error:
                if self._storage.failed is None:
                    logger.warning("compaction failed, retrying: %s", error)

    def _threshold_now(self) -> float:
        """Of the compaction that is due; 0 if none is."""
        config, now, due = self._config, self._now(), 0.0
        if config.minor_compaction_interval_s and now >= self._minor_at:
            self._minor_at, due = now + config.minor_compaction_interval_s, config.minor_compaction_threshold
        if config.major_compaction_interval_s and now >= self._major_at:
            self._major_at, due = now + config.major_compaction_interval_s, config.major_compaction_threshold
        return due if self._storage.writable else max(due, config.major_compaction_threshold)

    async def _compact(self, threshold: float) -> None:
        if not threshold:
            return
        done = await self._storage.compact(threshold)
        if done.refusal and done.refusal != self._refusal:
            logger.warning("%s", done.refusal)
        self._refusal = done.refusal
        if done.files_removed:
            logger.info(
                "compaction removed %d files and copied %d bytes", done.files_removed, done.copied_bytes
            )
