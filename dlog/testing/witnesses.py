"""Witnesses of the swarm: who opens a reader after an append succeeded sees the message (log semantics, rule 13)."""

from __future__ import annotations

import asyncio
from random import Random

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, TrimmedError
from dlog.model import MessageId
from dlog.reader_config import ReaderConfig
from dlog.testing.checking.history import WholeRead
from dlog.testing.checking.recorder import Recorder
from ledger.errors import LogStoreError, UnavailableError

_PATIENCE_S = 10.0
_INSTANT_S = 1e-6


class SwarmWitness:
    """One process. It waits for an acknowledgement, wherever it is given, and opens a reader in the same instant.

    Other readers come at any time, mostly long after an append was acknowledged, when everybody knows of it.
    """

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
            await self._look_for(await self._recorder.next_acked(), f"{self._name}.{turn}")
            await asyncio.sleep(0.3 * self._chance.random())

    async def _look_for(self, message_id: MessageId, reader: str) -> None:
        await asyncio.sleep(_INSTANT_S)  # so that the history tells which came first
        opened, found = asyncio.get_running_loop().time(), []
        try:
            async with asyncio.timeout(_PATIENCE_S):
                async with self._client.reader(
                    self._log, message_id, until="latest", config=self._config
                ) as messages:
                    async for message in messages:
                        assert message.payload is not None, "nobody writes tombstones"
                        self._recorder.returned(reader, message.id, message.payload)
                        found.append(message.id)
        except (TimeoutError, UnavailableError, LogNotFoundError, TrimmedError):
            return  # one that did not get to the tail proves nothing
        except LogStoreError as error:
            self.loud.append(f"{reader} from {message_id}: {error!r}")
            return
        self._recorder.whole_reads.append(WholeRead(reader, opened, frozenset(found), message_id))
