"""Auditor and worker in a bookie's process, if its settings ask for them.

They share the bookie's event loop and its session of the metadata store. Whatever becomes of them, the bookie serves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bookie_server.config import BookieConfig
from ledger.environment import Environment
from ledger.errors import LogStoreError
from ledger.metadata.store import MetadataStore
from ledger.repair.autorecovery import run_autorecovery

_AGAIN_S = 10.0

_log = logging.getLogger(__name__)


@asynccontextmanager
async def autorecovery(
    config: BookieConfig, store: MetadataStore, environment: Environment
) -> AsyncIterator[None]:
    """They run for the length of the block, or not at all."""
    if not config.autorecovery:
        yield
        return
    task = asyncio.get_running_loop().create_task(_keep_running(config, store, environment))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _keep_running(config: BookieConfig, store: MetadataStore, environment: Environment) -> None:
    while True:
        try:
            await run_autorecovery(store, environment, config.repair)
        except LogStoreError as error:
            _log.warning("autorecovery cannot start, and will try again: %s", error)
        except ExceptionGroup as error:
            _log.error("autorecovery has failed, and starts again", exc_info=error)
        await asyncio.sleep(_AGAIN_S)
