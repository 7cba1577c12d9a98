"""Readers of the swarm: they tail, or read everything, from random places, one time after another."""

from __future__ import annotations

import asyncio
from random import Random

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, TrimmedError
from dlog.model import MessageId
from dlog.read.config import ReaderConfig
from dlog.testing.checks.history import WholeRead
from dlog.testing.checks.recorder import Recorder
from ledger.errors import LogStoreError, UnavailableError

_ENOUGH = (20, 200, 1000)
"""Messages after which a reader starts anew somewhere else."""


class SwarmReader:
    """One process that reads the log, again and again."""

    def __init__(
        self,
        client: LogClient,
        log: str,
        recorder: Recorder,
        name: str,
        chance: Random,
        config: ReaderConfig,
    ) -> None:
        self._client = client
        self._log = log
        self._recorder = recorder
        self._name = name
        self._chance = chance
        self._config = config
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            await self._read(f"{self._name}.{turn}")
            await asyncio.sleep(0.2 * self._chance.random())

    async def _read(self, reader: str) -> None:
        start: MessageId | str = "earliest"
        try:
            async with asyncio.timeout(self._chance.uniform(0.2, 10.0)):
                if self._chance.random() < 0.15:
                    await self._read_all(reader)
                else:
                    start = self._start()
                    await self._tail(reader, start)
        except (TimeoutError, UnavailableError, LogNotFoundError, TrimmedError):
            return  # what it has read so far counts
        except LogStoreError as error:
            self.loud.append(f"{reader} from {start}: {error!r}")

    def _start(self) -> MessageId | str:
        """Somewhere: mostly at or near what some reader has seen. An id need not exist."""
        kind, seen = self._chance.random(), self._recorder.seen
        if kind < 0.25 or not seen:
            return "earliest"
        if kind < 0.4:
            return "latest"
        near = self._chance.choice(seen)
        if kind < 0.6:
            return MessageId(
                near.ledger_id, near.entry_id + self._chance.randrange(3), self._chance.randrange(3)
            )
        return near

    async def _tail(self, reader: str, start: MessageId | str) -> None:
        enough = self._chance.choice(_ENOUGH)
        async with self._client.reader(self._log, start, config=self._config) as messages:
            async for message in messages:
                assert message.payload is not None, "no writer appends tombstones"
                if isinstance(start, MessageId) and message.id < start:
                    self.wrong.append(f"c11_reader_ids_increase: {reader} from {start} returned {message.id}")
                self._recorder.returned(reader, message.id, message.payload)
                enough -= 1
                if not enough:
                    break

    async def _read_all(self, reader: str) -> None:
        opened, found = self._recorder.now(), []
        async with self._client.reader(self._log, until="latest", config=self._config) as messages:
            async for batch in messages.batches():
                for message in batch:
                    assert message.payload is not None, "no writer appends tombstones"
                    self._recorder.returned(reader, message.id, message.payload)
                    found.append(message.id)
        ended = asyncio.get_running_loop().time()
        self._recorder.whole_reads.append(WholeRead(reader, opened, frozenset(found), ended=ended))
