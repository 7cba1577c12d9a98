"""Repair by hand: what the commands ask of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.environment import Environment
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId
from ledger.repair.config import RepairConfig
from ledger.repair.copy_check import Mark, check_copies
from ledger.repair.copying.checker import Depth
from ledger.repair.draining import Drained, Draining, OnLedger, ignore_progress
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.outcome import LedgerOutcome
from ledger.repair.progress import CheckProgress, DrainProgress


class RepairClient:
    """Use `connected`."""

    def __init__(self, ledgers: LedgerClient, config: RepairConfig) -> None:
        self._ledgers = ledgers
        self._config = config

    async def recover(
        self,
        bookie_id: BookieId,
        *,
        only: LedgerId | None = None,
        dry_run: bool = False,
        skip_open: bool = False,
        on_ledger: OnLedger = ignore_progress,
        progress: DrainProgress | None = None,
    ) -> Drained:
        """Copy what the bookie must hold to others, which take its place (`Draining.recover`); see there for errors.

        `only`: the ledger that it is about; None: all of them. `progress`: what is noted while it runs.
        """
        draining = Draining(
            self._ledgers,
            bookie_id,
            self._config,
            only=only,
            skip_open=skip_open,
            on_ledger=on_ledger,
            progress=progress,
        )
        try:
            return await (draining.look() if dry_run else draining.recover())
        finally:
            await draining.close()

    async def decommission(
        self,
        bookie_id: BookieId,
        *,
        on_ledger: OnLedger = ignore_progress,
        progress: DrainProgress | None = None,
    ) -> Drained:
        """`recover`, and remove the bookie's cookie (`Draining.decommission`); see there for errors."""
        draining = Draining(self._ledgers, bookie_id, self._config, on_ledger=on_ledger, progress=progress)
        try:
            return await draining.decommission()
        finally:
            await draining.close()

    async def check_copies(
        self,
        *,
        full: bool = False,
        mark: bool = False,
        progress: CheckProgress | None = None,
    ) -> list[LedgerOutcome]:
        """Look at every ledger; returns those that lack something, or of which not all is known.

        `progress`: what is noted while it runs.
        """
        progress = progress or CheckProgress()
        found: list[LedgerOutcome] = []
        repair = LedgerRepair(self._ledgers, self._config, progress.copies)
        scope = Scope(others=Depth.ALL if full else Depth.ENDS)
        marking = Mark.ALL if mark else Mark.NONE
        try:
            async for outcome in check_copies(self._ledgers, repair, scope, marking):
                progress.ledgers += 1
                if not outcome.complete:
                    found.append(outcome)
        finally:
            await repair.close()
        return found


@asynccontextmanager
async def connected(
    store: MetadataStore, config: RepairConfig | None = None, environment: Environment | None = None
) -> AsyncIterator[RepairClient]:
    """A client on a cluster, for the length of the block. The store stays the caller's.

    Raises:
        MetadataUnavailableError: there is no cluster, or the store cannot be reached.
    """
    config = config or RepairConfig()
    ledgers = LedgerClient(
        store, config=LedgerClientConfig(placement=config.placement), environment=environment
    )
    try:
        await ledgers.start()
        yield RepairClient(ledgers, config)
    finally:
        await ledgers.close()
