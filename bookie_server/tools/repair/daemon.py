"""`bookie autorecovery` as a process: event loop, signals, the ready line, a line for each ledger, the exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from ledger import whole_loop
from ledger.command_line import DONE, say, tell
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.repair.autorecovery import process_name, run_autorecovery
from ledger.repair.config import RepairConfig
from ledger.repair.outcome import sentence


def run(metadata: str, config: RepairConfig) -> int:
    """Repair until SIGTERM or SIGINT; the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="bookie: %(message)s")
    return whole_loop.run(_serve(metadata, config))


async def _serve(metadata: str, config: RepairConfig) -> int:
    loop = asyncio.get_running_loop()
    environment = SystemEnvironment()
    store = await open_store(metadata)
    try:
        work = loop.create_task(
            run_autorecovery(
                store,
                environment,
                config,
                on_ready=lambda: tell(f"autorecovery {process_name(environment)} is ready"),
                on_outcome=lambda outcome: say("bookie", sentence(outcome)),
            )
        )
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, work.cancel)
        await asyncio.wait([work])
        if not work.cancelled():
            work.result()
        return DONE
    finally:
        await store.close()
