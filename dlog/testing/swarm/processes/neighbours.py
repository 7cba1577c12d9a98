"""Another cluster of logs in the same store, under another root and the same names; and another application.

What they were acknowledged must be there at the end, whatever the log's own administrators swept.
"""

from __future__ import annotations

import asyncio
from random import Random

from dlog.client import LogClient
from dlog.model import MessageId
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.model import LedgerId

NEIGHBOUR_ROOT = "/neighbour"
_SWEEP_AGE_S = 0.5
_TAGS: tuple[tuple[tuple[str, bytes], ...], ...] = (
    (),
    (("application", b"billing"),),
    (("dlog.log", b"8a6f0f2e-1111-4222-8333-944444444444"), ("dlog.name", b"default/other")),
)


class Belongings:
    """What all neighbours have been acknowledged, over all their lives."""

    def __init__(self) -> None:
        self.messages: dict[MessageId, bytes] = {}
        self.entries: dict[LedgerId, list[bytes]] = {}
        self._sent = 0

    def new_payload(self) -> bytes:
        self._sent += 1
        return b"neighbour %d" % self._sent

    async def missing(self, client: LogClient, log: str) -> list[str]:
        """What is not there any more, after one more takeover. UnavailableError, and what a takeover raises."""
        found: dict[MessageId, bytes | None] = {}
        if self.messages:
            await (await client.open_writer(log, create=True)).close()
            async with client.reader(log, until="latest") as reader:
                found = {message.id: message.payload async for message in reader}
        wrong = [
            f"c1_neighbours_lose_nothing: {message_id} is {found.get(message_id)!r}, was {payload!r}"
            for message_id, payload in self.messages.items()
            if found.get(message_id) != payload
        ]
        for ledger_id, entries in self.entries.items():
            try:
                handle = await client.ledgers.open_with_recovery(ledger_id)
                stored = (
                    [entry.payload for entry in await handle.read(0, len(entries) - 1)] if entries else []
                )
            except UnavailableError:
                raise
            except LogStoreError as error:
                wrong.append(f"c1_neighbours_lose_nothing: ledger {ledger_id} of an application: {error!r}")
                continue
            if [bytes(each) for each in stored] != entries:
                wrong.append(f"c1_neighbours_lose_nothing: ledger {ledger_id} holds {stored}, not {entries}")
        return wrong


class SwarmNeighbour:
    """One process. Any of its calls may fail; what succeeded is kept."""

    def __init__(self, client: LogClient, log: str, belongings: Belongings, chance: Random) -> None:
        self._client = client
        self._log = log
        self._belongings = belongings
        self._chance = chance
        self.wrong: list[str] = []
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        while True:
            work = self._chance.choice((self._append, self._append, self._use_a_ledger, self._sweep))
            try:
                await work()
            except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                pass
            except LogStoreError as error:
                self.loud.append(f"neighbour: {error!r}")
            await asyncio.sleep(2.0 * self._chance.random())

    async def _append(self) -> None:
        """Between its takeover and its first append a writer's ledger is empty, like an orphan."""
        writer = await self._client.open_writer(self._log, create=True)
        try:
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(2.0 * self._chance.random())
                payload = self._belongings.new_payload()
                self._belongings.messages[await writer.append(payload)] = payload
        finally:
            if self._chance.random() < 0.5:
                writer.abort()
        await writer.close()

    async def _use_a_ledger(self) -> None:
        handle = await self._client.ledgers.create(
            self._client.config.quorum, custom=self._chance.choice(_TAGS)
        )
        kept = self._belongings.entries.setdefault(handle.ledger_id, [])
        for _ in range(self._chance.randrange(4)):
            payload = self._belongings.new_payload()
            await handle.add(payload)
            kept.append(payload)
            await asyncio.sleep(self._chance.random())
        if self._chance.random() < 0.5:
            await handle.close()

    async def _sweep(self) -> None:
        await self._client.admin.sweep(age_s=_SWEEP_AGE_S)
