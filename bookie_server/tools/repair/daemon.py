"""`bookie autorecovery` as a process: event loop, signals, the ready line, the exit code."""

from __future__ import annotations

import asyncio

from bookie_server.log_output import log_to_stderr
from ledger import whole_loop
from ledger.command_line import DONE, stop_signals, tell
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.repair.autorecovery import process_name, run_autorecovery
from ledger.repair.config import RepairConfig


def run(metadata: str, config: RepairConfig, log_level: str) -> int:
    """Repair until SIGTERM, SIGINT or SIGHUP; the exit code."""
    log_to_stderr(log_level)
    return whole_loop.run(_serve(metadata, config))


async def _serve(metadata: str, config: RepairConfig) -> int:
    loop = asyncio.get_running_loop()
    work = loop.create_task(_work(metadata, config))
    # Before the store has responded: a service that is stopped then has not failed either.
    for each in stop_signals():
        loop.add_signal_handler(each, work.cancel)
    await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return DONE


async def _work(metadata: str, config: RepairConfig) -> None:
    environment = SystemEnvironment()
    store = await open_store(metadata)
    try:
        await run_autorecovery(
            store,
            environment,
            config,
            on_ready=lambda: tell(f"autorecovery {process_name(environment)} is ready"),
        )
    finally:
        await store.close()
