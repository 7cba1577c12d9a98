"""A bookie in limbo: it finds out what it has lost, has that repaired, and ends limbo when nothing is missing.

Invariant: limbo ends only when no ledger of the cluster can have an entry or a fence that this bookie acknowledged and
has lost. That holds once

- each ledger that names it is complete here in its closed fragments;
- none has it in the ensemble of a fragment that is still written to: its fence may be lost, and nothing says so;
- every ledger that is not OPEN is fenced here again, also one that does not name it any more, or never did: repair and
  recovery may have replaced it after its fence, and an add of the first writer would create the ledger.

Whatever cannot be determined keeps the bookie in limbo, as does another cluster in the metadata store.
Two comparisons must agree, since one listing may lag (docs/pitfalls.md#absence-from-one-listing).

BookKeeper: the data integrity check, which ends limbo after a full check (docs/bookkeeper.md#limbo).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from bookie_server.disk.disk import DiskWorker
from bookie_server.disk.durable import until_durable
from bookie_server.errors import ClusterMissingError, StorageError
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.completeness import lacks_entries
from bookie_server.storage.scrub.marking import RepairMarks
from ledger.errors import LedgerNotFoundError, LogStoreError, MetadataFormatError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId, LedgerMetadata, LedgerState
from ledger.repair.core.fragments import open_ensemble
from ledger.wire.digest import master_key

AGREEING = 2
"""Comparisons, one after the other, that find nothing missing before limbo ends."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LimboCheck:
    """What one comparison with the metadata of all ledgers has found."""

    lacking: int = 0
    """Ledgers that lack entries here, marked for repair."""
    open_here: int = 0
    """Ledgers with this bookie in a fragment that is still written to."""
    unknown: int = 0
    """Ledgers whose metadata cannot be read."""

    @property
    def nothing_missing(self) -> bool:
        return not (self.lacking or self.open_here or self.unknown)

    def __str__(self) -> str:
        return (
            f"{self.lacking} ledgers lack entries here and are marked for repair, {self.open_here} are still open "
            f"here, the metadata of {self.unknown} cannot be read"
        )


class LimboTask:
    """Compares until limbo has ended, or the bookie stops."""

    def __init__(
        self,
        storage: LedgerStorage,
        worker: DiskWorker,
        store: MetadataStore,
        instance_id: str,
        bookie_id: BookieId,
        marks: RepairMarks,
        check_interval_s: float,
    ) -> None:
        """`worker` is closed with the task. `instance_id`: of the bookie's cluster."""
        self._storage = storage
        self._worker = worker
        self._store = store
        self._instance_id = instance_id
        self._bookie_id = bookie_id
        self._marks = marks
        self._check_interval_s = check_interval_s
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._worker.close()

    async def _run(self) -> None:
        reported: LimboCheck | None = None
        agreeing = 0
        while True:
            try:
                found = await self._compare()
                agreeing = agreeing + 1 if found.nothing_missing else 0
                if agreeing >= AGREEING:
                    # A start after this must not read the damaged part of the journal again.
                    await self._storage.checkpoint()
                    await self._storage.clear_limbo()
                    logger.warning("limbo is over: every ledger that names this bookie is complete here")
                    return
                if found != reported:
                    logger.warning("in limbo: %s; docs/operations.md#limbo", found)
                    reported = found
            except LogStoreError as error:
                if self._storage.failed is not None:
                    return
                agreeing = 0
                logger.warning("what this bookie has lost cannot be found out now: %s", error)
            await asyncio.sleep(self._check_interval_s)

    async def _compare(self) -> LimboCheck:
        if await self._store.instance_id() != self._instance_id:
            raise ClusterMissingError(f"{self._store.uri} now has another cluster", uri=self._store.uri)
        found = LimboCheck()
        # In limbo no ledger is new here. What is in no listing may have been deleted: its tombstone may be lost.
        unlisted = set(await self._storage.list_ledgers())
        async for ledger_id in self._store.ledger_ids():
            unlisted.discard(ledger_id)
            await self._check(ledger_id, found)
        for local in sorted(unlisted):
            await self._check(LedgerId(local), found)
        return found

    async def _check(self, ledger_id: LedgerId, found: LimboCheck) -> None:
        try:
            metadata = (await self._store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            await self._restore(ledger_id, b"", ended=True)
            return
        except MetadataFormatError as error:
            logger.error("ledger %s is not checked: %s", ledger_id, error)
            found.unknown += 1
            return
        await self._restore(
            ledger_id, master_key(metadata.password), ended=metadata.state is not LedgerState.OPEN
        )
        if self._bookie_id not in metadata.members():
            return
        if await self._lacks(ledger_id, metadata):
            await self._marks.mark(ledger_id)
            found.lacking += 1
        elif self._bookie_id in open_ensemble(metadata):
            found.open_here += 1

    async def _restore(self, ledger_id: LedgerId, key: bytes, *, ended: bool) -> None:
        error = await until_durable(
            lambda done: self._storage.restore_ledger(ledger_id, key, ended=ended, on_durable=done)
        )
        if error is not None:
            raise error

    async def _lacks(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> bool:
        try:
            held = await self._storage.held_ranges(ledger_id)
        except StorageError:
            return True
        return await self._worker.run(lambda: lacks_entries(metadata, self._bookie_id, held))
