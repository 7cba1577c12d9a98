"""Witnesses of the swarm: a reader that is opened after an append succeeded sees the message.

Source: docs/log-semantics.md#rule-13.
"""

from __future__ import annotations

import asyncio

from dlog.errors import LogNotFoundError, TrimmedError
from dlog.model import MessageId
from dlog.testing.checks.history import WholeRead
from dlog.testing.swarm.processes.readers import SwarmReader
from dlog.testing.swarm.processes.starts import Start
from ledger.errors import LogStoreError, UnavailableError
from ledger.signal import Signal

_PATIENCE_S = 10.0
_INSTANT_S = 1e-6


class SwarmWitness(SwarmReader):
    """One process. It waits for an acknowledgement, wherever it is given, and opens a reader in the same instant.

    Other readers come at any time, mostly long after an append was acknowledged, when every client knows of it.
    When the log's record changes, which begins or ends a rotation, it opens a tail.
    """

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_acknowledged(), name=f"{self._name} reads")
            group.create_task(self._look_at_changes(), name=f"{self._name} tails")

    async def _look_for_acknowledged(self) -> None:
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
                        self._recorder.returned_message(reader, message)
                        found.append(message.id)
        except (TimeoutError, UnavailableError, LogNotFoundError, TrimmedError):
            return  # one that did not get to the tail proves nothing
        except LogStoreError as error:
            self.loud.append(f"{reader} from {message_id}: {error!r}")
            return
        ended = self._recorder.now()
        self._recorder.whole_reads.append(WholeRead(reader, opened, frozenset(found), message_id, ended))

    async def _look_at_changes(self) -> None:
        changed, turn, unwatch = Signal(), 0, None
        try:
            while True:
                turn += 1
                name, start = f"{self._name}.tail{turn}", Start("latest")
                changed.clear()
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        if unwatch is None:
                            ref = await self._client.logs.find(self._client.name(self._log))
                            unwatch = self._client.logs.watch(ref, changed.set)
                        reader = start.reader(self._client, self._log, self._config)
                        async with start.opened(reader, name, self._recorder):
                            pass  # where it begins is what is looked at
                except (TimeoutError, UnavailableError, LogNotFoundError):
                    await asyncio.sleep(self._chance.random())
                except LogStoreError as error:
                    self.loud.append(f"{name}: {error!r}")
                await changed.future()
        finally:
            if unwatch is not None:
                unwatch()
