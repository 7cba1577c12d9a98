"""A writer of the log as a process of its own: appends, takes the log back when it loses it, tells everything.

    python -m tests.helpers.nemesis.writer_process URI HISTORY NAME SEED [striped] [fast]

Ends on SIGTERM, after all it had accepted is settled.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from pathlib import Path

from dlog.blocking.loop_thread import fastest_loop
from dlog.client import LogClient, connect
from dlog.errors import AppendIndeterminateError, TakeoverLostError
from dlog.model import MessageId
from dlog.testing.checks.history import Outcome
from dlog.write.writer import LogWriter
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnavailableError,
)
from tests.helpers.nemesis.history_file import HistoryFile
from tests.helpers.nemesis.settings import LOG, log_config

_IN_FLIGHT_MAX = 64


class WriterProcess:
    def __init__(self, client: LogClient, history: HistoryFile, name: str, chance: random.Random) -> None:
        self._client = client
        self._history = history
        self._name = name
        self._chance = chance
        self._stopping = asyncio.Event()
        self._appends: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        for term in range(1000):
            writer = await self._take_over(f"{self._name}.{term}")
            if writer is not None:
                await self._append_until_lost(writer, f"{self._name}.{term}")
            if self._stopping.is_set():
                return
            await asyncio.sleep(self._chance.uniform(0.2, 2.0))

    async def _take_over(self, handle: str) -> LogWriter | None:
        try:
            writer = await self._client.open_writer(LOG, create=True)
        except (TakeoverLostError, UnavailableError, OutcomeUnknownError) as error:
            print(f"{handle} no takeover: {error}", flush=True)
            return None
        self._history.takeover(handle, time.monotonic(), writer.epoch)
        print(f"{handle} took over at epoch {writer.epoch}", flush=True)
        return writer

    async def _append_until_lost(self, writer: LogWriter, handle: str) -> None:
        number = 0
        pause_s = self._chance.choice([0.0, 0.0005, 0.005, 0.05])
        while writer.active and not self._stopping.is_set():
            payload = f"{handle}:{number}:".encode() + b"." * self._chance.choice([0, 10, 500])
            self._history.invoked(handle, number, time.monotonic(), payload)
            self._spawn(self._append(writer, handle, number, payload))
            number += 1
            if self._chance.random() < 0.002:
                self._spawn(self._rotate(writer))
            await asyncio.sleep(pause_s)
            while len(self._appends) >= _IN_FLIGHT_MAX and not self._stopping.is_set():
                await asyncio.wait(self._appends, return_when=asyncio.FIRST_COMPLETED)
        await writer.close()
        if self._appends:
            await asyncio.wait(self._appends)
        print(f"{handle} ended after {number} appends", flush=True)

    def _spawn(self, work: asyncio.Future[None] | object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[arg-type]  # a coroutine without result
        self._appends.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._appends.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._history.wrong(self._name, f"an append ended with {error!r}")

    async def _append(self, writer: LogWriter, handle: str, number: int, payload: bytes) -> None:
        outcome, message_id = await _outcome(writer, payload)
        self._history.ended(handle, number, time.monotonic(), outcome, message_id)

    async def _rotate(self, writer: LogWriter) -> None:
        try:
            await writer.rotate()
        except LogStoreError as error:
            print(f"{self._name} no rotation: {error}", flush=True)


async def _outcome(writer: LogWriter, payload: bytes) -> tuple[Outcome, MessageId | None]:
    try:
        return Outcome.ACKED, await writer.append(payload)
    except AppendIndeterminateError as error:
        return Outcome.INDETERMINATE, error.message_id
    except (ConfigurationError, UnavailableError, OwnershipLostError):
        return Outcome.REJECTED, None


async def main(uri: str, history: str, name: str, seed: str, *options: str) -> None:
    config = log_config(striped="striped" in options, fast="fast" in options)
    lines = HistoryFile(Path(history))
    async with connect(uri, config=config) as client:
        process = WriterProcess(client, lines, name, random.Random(seed))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.stop)
        print("127.0.0.1:0 is ready", flush=True)
        await process.run()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(main(*sys.argv[1:]))
