"""Readers of the log as a process: they tail from random places, one after another, and tell what they saw.

python -m tests.helpers.nemesis.reader_process URI HISTORY NAME SEED
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
from dlog.errors import LogNotFoundError
from dlog.model import MessageId
from ledger.errors import LogStoreError, UnavailableError
from tests.helpers.nemesis.history_file import HistoryFile
from tests.helpers.nemesis.settings import LOG, log_config


class ReaderProcess:
    def __init__(self, client: LogClient, history: HistoryFile, name: str, chance: random.Random) -> None:
        self._client = client
        self._history = history
        self._name = name
        self._chance = chance
        self._seen: list[MessageId] = []

    async def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            start = self._start()
            print(f"{self._name}.{turn} reads from {start}", flush=True)
            try:
                async with asyncio.timeout(self._chance.uniform(0.5, 5.0)):
                    await self._tail(f"{self._name}.{turn}", start)
            except TimeoutError:
                continue
            except (UnavailableError, LogNotFoundError) as error:
                print(f"{self._name}.{turn} {error}", flush=True)
                await asyncio.sleep(0.2)
            except LogStoreError as error:
                self._history.wrong(f"{self._name}.{turn}", f"from {start}: {error!r}")
                return

    def _start(self) -> MessageId | str:
        kind = self._chance.random()
        if kind < 0.25 or not self._seen:
            return "earliest"
        if kind < 0.4:
            return "latest"
        near = self._chance.choice(self._seen)
        if kind < 0.6:  # an id need not exist
            return MessageId(
                near.ledger_id, near.entry_id + self._chance.randrange(3), self._chance.randrange(3)
            )
        return near

    async def _tail(self, reader_name: str, start: MessageId | str) -> None:
        async with self._client.reader(LOG, start) as reader:
            async for message in reader:
                assert message.payload is not None, "no writer appends tombstones"
                self._history.returned(reader_name, message.id, time.monotonic(), message.payload)
                self._seen.append(message.id)


async def main(uri: str, history: str, name: str, seed: str, *_: str) -> None:
    async with await connect(uri, config=log_config()) as client:
        process = ReaderProcess(client, HistoryFile(Path(history)), name, random.Random(seed))
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        print("127.0.0.1:0 is ready", flush=True)
        try:
            await process.run()
        except asyncio.CancelledError:
            print(f"{name} ended", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(main(*sys.argv[1:]))
