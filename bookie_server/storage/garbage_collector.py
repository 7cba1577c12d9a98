"""Garbage collection: delete ledgers that are no longer in the metadata, and entry logs without a live ledger.

Invariant: local ids are taken before the listing, so a ledger created in the meantime is not a candidate. A ledger is
deleted only when complete listings lacked it for the whole grace time and a read of its own metadata then proves it
absent; any error keeps it. A failed or partial listing proves nothing. One pass deletes at most a part of all ledgers,
so that a wrong metadata store cannot empty a bookie in one pass. Ledger ids are never reused, and the tombstone is
permanent, so a late add cannot revive a deleted ledger.

Protocol: docs/bookkeeper.md#deleting-a-ledger.
Pitfalls: docs/pitfalls.md#absence-from-one-listing, #late-add-to-a-deleted-ledger.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bookie_server.disk.durable import until_durable
from bookie_server.errors import DiskFullError, StorageError
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.buggify import linger
from ledger.errors import ConfigurationError, LayoutMismatchError, LedgerNotFoundError, LogStoreError
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageCollectorConfig:
    grace_s: float = 60.0
    """A ledger must be missing from every listing for this long. Covers metadata replicas that lag."""
    deletes_part_max: float = 0.5
    """A pass deletes at most this part of the local ledgers, or `deletes_always`, whichever is more."""
    deletes_always: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.deletes_part_max <= 1:
            raise ConfigurationError(
                f"deletes_part_max must be above 0 and at most 1, got {self.deletes_part_max}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorPass:
    """What one pass did."""

    deleted: int = 0
    waiting: int = 0
    """Missing from metadata but still within the grace time, or over the limit of this pass."""
    removed_logs: int = 0
    error: LogStoreError | None = None
    """Why the pass ended early, if it did; everything not proved absent was kept."""


class GarbageCollector:
    """One per bookie; passes run one after the other on the loop."""

    def __init__(
        self,
        storage: LedgerStorage,
        store: MetadataStore,
        config: GarbageCollectorConfig | None = None,
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        """`now` is monotonic seconds, the loop's clock unless given."""
        self._storage = storage
        self._store = store
        self._config = config or GarbageCollectorConfig()
        self._now = now or asyncio.get_running_loop().time
        self._missing_since: dict[int, float] = {}

    async def collect(self) -> CollectorPass:
        """One pass. Never raises for what metadata or storage answer: the next pass tries again."""
        deleted = 0
        try:
            ripe = await self._ripe()
            for ledger_id in ripe:
                if await self._is_proved_absent(ledger_id):
                    await linger("bookie.slow-deletion")
                    await self._delete(ledger_id)
                    deleted += 1
            full = await self._checkpoint() if deleted else None
            removed = await self._storage.remove_dead_logs()
        except LogStoreError as error:
            return CollectorPass(deleted=deleted, waiting=len(self._missing_since), error=error)
        return CollectorPass(
            deleted=deleted, waiting=len(self._missing_since), removed_logs=removed, error=full
        )

    async def _checkpoint(self) -> DiskFullError | None:
        """Store what was deleted. On a full disk that may have been all that was stored, and files are removed next."""
        try:
            await self._storage.checkpoint()
        except DiskFullError as full:
            return full
        return None

    async def _ripe(self) -> list[int]:
        """Local ledgers that are missing for the grace time, as many as one pass may delete."""
        local = await self._storage.list_ledgers()
        now = self._now()
        missing = await self._missing(local)
        self._missing_since = {ledger_id: self._missing_since.get(ledger_id, now) for ledger_id in missing}
        ripe = [
            ledger_id
            for ledger_id, since in self._missing_since.items()
            if now - since >= self._config.grace_s
        ]
        limit = max(self._config.deletes_always, int(len(local) * self._config.deletes_part_max))
        return ripe[:limit]

    async def _missing(self, local: list[int]) -> list[int]:
        """Local ids that the complete listing lacks. Both ascend, so one walk compares them."""
        missing: list[int] = []
        at, previous = 0, -1
        async for listed in self._store.ledger_ids():
            if listed <= previous:
                raise StorageError(
                    f"the metadata store listed ledger {listed} after {previous}: nothing is deleted"
                )
            previous = listed
            while at < len(local) and local[at] < listed:
                missing.append(local[at])
                at += 1
            if at < len(local) and local[at] == listed:
                at += 1
        return missing + local[at:]

    async def _is_proved_absent(self, ledger_id: int) -> bool:
        try:
            await self._store.read_ledger(LedgerId(ledger_id))
        except LedgerNotFoundError:
            return True
        except LogStoreError:
            return False
        return False

    async def _delete(self, ledger_id: int) -> None:
        error = await until_durable(partial(self._storage.delete_ledger, ledger_id))
        if error is not None:
            raise error
        self._missing_since.pop(ledger_id, None)


class GarbageTask:
    """Runs a pass every `interval_s` for as long as the bookie serves.

    Before each pass the metadata store must still hold the bookie's cluster: in another one, or one that was formatted
    again, every ledger would look deleted.
    """

    def __init__(
        self,
        collector: GarbageCollector,
        store: MetadataStore,
        instance_id: str,
        interval_s: float,
        on_another_cluster: Callable[[LayoutMismatchError], None],
    ) -> None:
        """`on_another_cluster`: called once, and nothing is deleted from then on."""
        self._collector = collector
        self._store = store
        self._instance_id = instance_id
        self._interval_s = interval_s
        self._on_another_cluster = on_another_cluster
        self.passes = self.failed_passes = 0
        """In this process; a failed one ended early, and is repeated."""
        self.ledgers_waiting = 0
        """Missing from the metadata, and not deleted by the last pass."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                if (reason := await self._not_its_cluster()) is not None:
                    self._on_another_cluster(reason)
                    return
                await self._pass()
            except LogStoreError as error:
                self.failed_passes += 1
                logger.warning("garbage collection failed, retrying: %s", error)

    async def _not_its_cluster(self) -> LayoutMismatchError | None:
        """Why this bookie must not serve here. It would not start again on what the clients of this cluster add."""
        found = await self._store.instance_id()
        if found == self._instance_id:
            return None
        return LayoutMismatchError(
            f"the cluster in {self._store.uri} was {self._instance_id} and is {found} now: this bookie does not belong "
            "to it; start it with the metadata store of its cluster, or, if that was formatted, empty its directories "
            "with `bookie format --force`"
        )

    async def _pass(self) -> None:
        done = await self._collector.collect()
        self.passes += 1
        self.ledgers_waiting = done.waiting
        if done.error is not None:
            raise done.error
        if done.deleted or done.removed_logs:
            logger.info("deleted %d ledgers and %d entry logs", done.deleted, done.removed_logs)
