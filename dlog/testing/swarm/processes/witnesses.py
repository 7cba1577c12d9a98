"""Witnesses of the swarm: who opens a reader after an append succeeded sees the message.

Source: docs/log-semantics.md#rule-13.
"""

from __future__ import annotations

import asyncio

from dlog.errors import LogNotFoundError, TrimmedError
from dlog.model import MessageId
from dlog.testing.checks.history import WholeRead
from dlog.testing.swarm.processes.readers import SwarmReader
from ledger.errors import LogStoreError, UnavailableError

_PATIENCE_S = 10.0
_INSTANT_S = 1e-6


class SwarmWitness(SwarmReader):
    """One process. It waits for an acknowledgement, wherever it is given, and opens a reader in the same instant.

    Other readers come at any time, mostly long after an append was acknowledged, when everybody knows of it.
    """

    async def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            await self._look_for(await self._recorder.next_acked(), f"{self._name}.{turn}")
            await asyncio.sleep(0.3 * self._chance.random())

    async def _look_for(self, message_id: MessageId, reader: str) -> None:
        await asyncio.sleep(_INSTANT_S)  # so that the history shows which came first
        opened, found = self._recorder.now(), []
        try:
            async with asyncio.timeout(_PATIENCE_S):
                async with self._client.reader(
                    self._log, message_id, until="latest", config=self._config
                ) as messages:
                    async for message in messages:
                        assert message.payload is not None, "no writer appends tombstones"
                        self._recorder.returned(reader, message.id, message.payload)
                        found.append(message.id)
        except (TimeoutError, UnavailableError, LogNotFoundError, TrimmedError):
            return  # one that did not get to the tail proves nothing
        except LogStoreError as error:
            self.loud.append(f"{reader} from {message_id}: {error!r}")
            return
        ended = asyncio.get_running_loop().time()
        self._recorder.whole_reads.append(WholeRead(reader, opened, frozenset(found), message_id, ended))
