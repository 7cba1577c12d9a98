"""Auditor and worker in a bookie's process, if its settings ask for them.

They share the bookie's event loop and its session of the metadata store. Whatever becomes of them, the bookie serves.
One without them does not load them: that would be a fifth of its start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from bookie_server.config import BookieConfig
from ledger.environment import Environment
from ledger.errors import LogStoreError
from ledger.metadata.store import MetadataStore
from ledger.repair.progress import WorkerProgress

_AGAIN_S = 10.0

_log = logging.getLogger(__name__)

RepairStatus = Callable[[], dict[str, Any] | None]
"""What the worker has done and does, as JSON has it; None if the bookie has none."""


@asynccontextmanager
async def autorecovery(
    config: BookieConfig, store: MetadataStore, environment: Environment
) -> AsyncIterator[RepairStatus]:
    """They run for the length of the block, or not at all."""
    if not config.autorecovery:
        yield lambda: None
        return
    from ledger.repair.autorecovery import process_name

    progress = WorkerProgress()
    task = asyncio.get_running_loop().create_task(_keep_running(config, store, environment, progress))
    name = process_name(environment)
    try:
        yield lambda: worker_status(name, progress)
    finally:
        task.cancel()
        await asyncio.wait([task])


def worker_status(name: str, progress: WorkerProgress) -> dict[str, Any]:
    """`name`: the worker's in the locks of ledgers."""
    return {
        "worker": name,
        "ledgers_repaired": progress.ledgers,
        "ledgers_waiting": progress.waiting,
        "entries_copied": progress.copies.entries,
        "bytes_copied": progress.copies.payload_bytes,
        "ledgers": [
            {
                "ledger": each.ledger_id,
                "began_ms": each.began_ms,
                "entries_copied": each.entries,
                "entries_to_copy": each.entries_total,
                "bytes_copied": each.payload_bytes,
            }
            for each in progress.copies.current.values()
        ],
    }


async def _keep_running(
    config: BookieConfig, store: MetadataStore, environment: Environment, progress: WorkerProgress
) -> None:
    from ledger.repair.autorecovery import run_autorecovery

    while True:
        try:
            await run_autorecovery(store, environment, config.repair, progress=progress)
        except LogStoreError as error:
            _log.warning("autorecovery cannot start, and will try again: %s", error)
        except ExceptionGroup as error:
            _log.error("autorecovery has failed, and starts again", exc_info=error)
        await asyncio.sleep(_AGAIN_S)
