"""Auditor and worker of one process, over a ledger client of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.environment import Environment
from ledger.metadata.store import MetadataStore
from ledger.repair.auditor import Auditor
from ledger.repair.config import RepairConfig
from ledger.repair.progress import WorkerProgress
from ledger.repair.worker import Worker


def process_name(environment: Environment) -> str:
    """Names this process in locks and votes: HOST:PID, which has the form of a bookie id."""
    host = re.sub(r"[^a-zA-Z0-9.-]", "-", environment.host_name())
    return f"{host[:200] or 'host'}:{environment.process_id()}"


async def run_autorecovery(
    store: MetadataStore,
    environment: Environment,
    config: RepairConfig,
    on_ready: Callable[[], None] = lambda: None,
    progress: WorkerProgress | None = None,
) -> None:
    """Stand for auditor and repair what is marked, until cancelled. `progress`: where the worker notes what it does.

    Raises:
        MetadataUnavailableError: there is no cluster, or the store cannot be reached at the start. Later both wait
            for it.
    """
    ledgers = LedgerClient(
        store, config=LedgerClientConfig(placement=config.placement), environment=environment
    )
    try:
        await ledgers.start()
        name = process_name(environment)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Auditor(ledgers, config, name).run())
            tasks.create_task(Worker(ledgers, config, name, progress).run())
            on_ready()
    finally:
        await ledgers.close()
