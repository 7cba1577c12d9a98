"""Creates the ledgers of one log, tagged so that an orphan can be attributed, on fewer bookies if necessary."""

from __future__ import annotations

import asyncio

from dlog.config import LogConfig
from dlog.core.degraded import fallback_quorum
from dlog.core.metadata_keys import ledger_tags
from dlog.core.rotation_triggers import LedgerUse
from dlog.metadata.store import LogRef
from dlog.model import Owner
from dlog.write.active_ledger import ActiveLedger
from ledger.client import LedgerClient
from ledger.errors import NotEnoughBookiesError
from ledger.model import QuorumSizes
from ledger.writing.write_handle import WriteHandle


class LedgerMaker:
    """Creates ledgers for one writer or candidate."""

    def __init__(self, ref: LogRef, owner: Owner, ledgers: LedgerClient, config: LogConfig) -> None:
        self._ref = ref
        self._owner = owner
        self._ledgers = ledgers
        self._config = config

    async def create(self, epoch: int) -> ActiveLedger:
        """Create a ledger for this epoch, with fewer bookies than configured if the policy allows it.

        Raises:
            NotEnoughBookiesError: the policy permits no smaller ensemble.

        Source: docs/log-semantics.md#rule-19b.
        """
        wanted = self._config.quorum
        try:
            return self._active_ledger(await self._create(wanted, epoch), degraded=False)
        except NotEnoughBookiesError:
            live = len(self._ledgers.bookies().writable)
            smaller = fallback_quorum(wanted, live, self._config.degraded)
            if smaller is None:
                raise
        return self._active_ledger(await self._create(smaller, epoch), degraded=True)

    async def _create(self, quorum: QuorumSizes, epoch: int) -> WriteHandle:
        tags = ledger_tags(
            root=self._ref.root,
            log=self._ref.name,
            log_uuid=self._ref.log_uuid,
            epoch=epoch,
            owner_instance=self._owner.instance,
            created_us=self._ledgers.environment.wall_us(),
        )
        return await self._ledgers.create(
            quorum,
            digest_type=self._config.digest_type,
            password=self._config.password,
            custom=tags,
            visibility=self._config.visibility,
        )

    def _active_ledger(self, handle: WriteHandle, *, degraded: bool) -> ActiveLedger:
        now = asyncio.get_running_loop().time()
        use = LedgerUse(opened_at=now, chance=self._ledgers.environment.chance.random(), degraded=degraded)
        use.last_append_at = now
        return ActiveLedger(handle, use)
