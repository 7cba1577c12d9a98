"""A writer of the demo, run as its own process.

    python -m dlog.demo.writer_process URI LOG DATA SLOW_FROM

Takes the log over, reads where the previous writer stopped, and continues with the next flight, at a pace that
leaves time to watch. From flight SLOW_FROM on it appends only a few at a time, so that some are left for the next
writer however long that takes to start. It reports on standard output when it owns the log, what was acknowledged,
and how it ended.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dlog.client import LogClient, connect
from dlog.demo.events import tell
from dlog.demo.flights import Flight, load
from dlog.demo.place import CONFIG
from dlog.demo.proof import ROW_HEADER
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError

BATCH, SLOW_BATCH = 100, 3
BATCHES_A_SECOND = 40
ROTATE_EVERY = 3_000
TAKE_OVER_AT = 9_000
"""Messages acknowledged when the next writer's process starts."""
PENDING_MAX = 8


async def main(uri: str, log: str, data: str, slow_from: str) -> None:
    """Append the flights that the log does not have yet."""
    flights = load(Path(data))
    async with connect(uri, config=CONFIG) as client:
        started = time.monotonic()
        writer = await client.open_writer(log)
        opened_ms = (time.monotonic() - started) * 1000
        first = await _rows_there(client, log)
        tell("open", epoch=writer.epoch, milliseconds=opened_ms, first=first, degraded=writer.degraded)
        run = _Run(writer, flights, first, int(slow_from))
        if await run.append_all():
            await writer.close()
            tell("done", rotations=run.rotations)
            return
        # A deposed writer stays deposed: another append raises the same error.
        try:
            await writer.append(b"one more")
        except LogStoreError as error:
            tell("deposed", error=type(error).__name__, message=str(error), unsettled=run.unsettled)


async def _rows_there(client: LogClient, log: str) -> int:
    """Number of flights in the log: one more than the line number in the last message."""
    async with client.reader(log, last=1, until="latest") as reader:
        async for message in reader:
            return int(dict(message.headers)[ROW_HEADER]) + 1
    return 0


class _Run:
    """Appends batches at a fixed pace, several in flight, until all are acknowledged or the log is lost."""

    def __init__(self, writer: LogWriter, flights: Sequence[Flight], first: int, slow_from: int) -> None:
        self._writer = writer
        self._flights = flights
        self._next = first
        self._slow_from = slow_from
        self._pending: set[asyncio.Task[None]] = set()
        self._failed = False
        self.unsettled = 0
        self.rotations = 0

    async def append_all(self) -> bool:
        """True if everything was acknowledged, False if another writer owns the log now."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self._next < len(self._flights) and not self._failed:
            due = max(due + 1 / BATCHES_A_SECOND, loop.time() - 0.1)
            await asyncio.sleep(due - loop.time())
            while len(self._pending) >= PENDING_MAX:
                await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)
            following = self._next + (BATCH if self._next < self._slow_from else SLOW_BATCH)
            self._start(self._append(self._next, self._flights[self._next : following]))
            if self._next // ROTATE_EVERY != following // ROTATE_EVERY:
                self._start(self._rotate())
            self._next = following
        if self._pending:
            await asyncio.wait(self._pending)
        return not self._failed

    def _start(self, work: asyncio.Future[None] | object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[arg-type]  # a coroutine
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _append(self, first: int, batch: Sequence[Flight]) -> None:
        try:
            ids = await self._writer.append_many(
                [flight.line for flight in batch],
                keys=[flight.carrier for flight in batch],
                headers=[[(ROW_HEADER, b"%d" % (first + n))] for n in range(len(batch))],
            )
        except LogStoreError:
            self._failed = True
            self.unsettled += len(batch)
            return
        tell("acked", count=first + len(batch), id=str(ids[-1]), time=time.monotonic())

    async def _rotate(self) -> None:
        try:
            await self._writer.rotate()
        except LogStoreError:
            return  # the next append raises it, too
        self.rotations += 1
        tell("rotated")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
