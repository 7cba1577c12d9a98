"""One writer of the demonstration, a process of its own.

    python -m dlog.demo.writer_process URI LOG DATA

Takes the log over, reads back how far the writer before it came, and goes on with the next flight, at a pace
that leaves time to watch. Events on standard output say when it owns the log, what was acknowledged, and how
it ended.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import dlog.aio
from dlog.demo.events import tell
from dlog.demo.flights import load
from ledger.errors import OwnershipLostError

BATCH = 100
BATCHES_A_SECOND = 60
ROTATE_EVERY = 4_000
PENDING_MAX = 8


async def main(uri: str, log: str, data: str) -> None:
    """Append what is missing of the file."""
    loop = asyncio.get_running_loop()
    flights = load(Path(data))
    async with dlog.aio.connect(uri) as client:
        started = loop.time()
        writer = await client.open_writer(log, create=True)
        opened_ms = (loop.time() - started) * 1000
        first = await _rows_there(client, log)
        tell("open", epoch=writer.epoch, ledger=writer.ledger_id, milliseconds=opened_ms, first=first)
        try:
            await _append(writer, flights, first)
        except OwnershipLostError as error:
            tell("deposed", error=type(error).__name__, message=str(error))
            return
        await writer.close()
    tell("done")
