"""Consumers of the swarm: several processes share one cursor, take it over from each other, and acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

from dlog.client import LogClient
from dlog.core.tailing import OnMissing
from dlog.errors import (
    CursorMovedError,
    CursorNotFoundError,
    LogNotFoundError,
    TrimmedError,
    UnknownPositionError,
)
from dlog.model import Message, MessageId
from dlog.read.config import ReaderConfig
from dlog.read.reader import Reader
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.cursors import Acked, Event, Opened, Set, c18_cursors_move_forward_and_by_one
from dlog.testing.checks.history import ReadFrom
from dlog.testing.checks.recorder import Recorder
from dlog.testing.swarm.processes.cut_short import CutShortError, cut_short
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError

CURSOR = "work"
_NOT_NOW = (UnavailableError, OutcomeUnknownError, LogNotFoundError, CursorMovedError, CursorNotFoundError)


class Consumed:
    """What all of them report, over all incarnations."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._events: list[Event] = []
        self._holders = 0

    def new_holder(self) -> int:
        self._holders += 1
        return self._holders

    def opened(self, holder: int, invoked: float, position: MessageId) -> None:
        self._events.append(Opened(holder, invoked, self.now(), position))

    async def acking(self, holder: int, position: MessageId, ack: Awaitable[None]) -> None:
        """Report the acknowledgement now, and its end if it has one."""
        number = len(self._events)
        event = Acked(holder, position, self.now())
        self._events.append(event)
        await ack
        self._events[number] = replace(event, returned=self.now(), done=True)

    async def setting(self, position: MessageId | None, change: Awaitable[object]) -> None:
        """The same of an operator's change."""
        number = len(self._events)
        event = Set(position, self.now())
        self._events.append(event)
        await change
        self._events[number] = replace(event, returned=self.now(), done=True)

    def wrong(self) -> list[str]:
        """What the events show to have gone wrong."""
        return first_findings(
            "c18_cursors_move_forward_and_by_one", c18_cursors_move_forward_and_by_one(self._events)
        )


class SwarmConsumer:
    """One process."""

    def __init__(
        self,
        client: LogClient,
        log: str,
        recorder: Recorder,
        consumed: Consumed,
        name: str,
        chance: Random,
        config: ReaderConfig,
        *,
        strict: bool,
    ) -> None:
        self._client = client
        self._log = log
        self._recorder = recorder
        self._consumed = consumed
        self._name = name
        self._chance = chance
        self._config = config
        self._strict = strict
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            try:
                if self._recorder.seen and self._chance.random() < 0.12:
                    await self._operate()
                else:
                    await self._consume(f"{self._name}.{turn}")
            except (*_NOT_NOW, TrimmedError, CutShortError, TimeoutError):
                pass  # what was reported so far counts
            except UnknownPositionError as error:
                if self._strict:  # or what was acknowledged is not yet seen to be confirmed
                    self.loud.append(f"{self._name}: {error!r}")
            except LogStoreError as error:
                self.loud.append(f"{self._name}: {error!r}")
            await asyncio.sleep(0.5 * self._chance.random())

    async def _operate(self) -> None:
        """Set the cursor to a message that was read, or remove it."""
        if self._chance.random() < 0.4:
            await self._consumed.setting(None, self._client.delete_cursor(self._log, CURSOR))
            return
        position = self._chance.choice(self._recorder.seen)
        acked = self._recorder.last_acked
        change = self._client.set_cursor(self._log, CURSOR, position)
        try:
            await self._consumed.setting(position, cut_short(change, self._chance, share=0.2))
        except UnknownPositionError:
            if position <= acked:
                raise
            # It was shown to a reader by a bookie that does not respond now.

    async def _consume(self, name: str) -> None:
        """One reader: it takes the cursor over, reads, and acknowledges until it is replaced or has enough."""
        reader = self._client.reader(self._log, cursor=CURSOR, on_trimmed=OnMissing.SKIP, config=self._config)
        self._recorder.may_skip(name)
        holder, asked = self._consumed.new_holder(), self._consumed.now()
        async with asyncio.timeout(self._chance.uniform(0.5, 6.0)):
            async with reader:
                assert reader.cursor is not None
                began = reader.cursor.position
                self._consumed.opened(holder, asked, began)
                self._recorder.starts[name] = ReadFrom(
                    "id", began, 0, asked, self._recorder.now(), reader.position
                )
                for _ in range(self._chance.randint(1, 8)):
                    await self._take_and_ack(name, reader, holder)

    async def _take_and_ack(self, name: str, reader: Reader, holder: int) -> None:
        taken: list[Message] = []
        for _ in range(self._chance.choice((1, 2, 10))):
            message = await reader.poll(0.2)
            if message is None:
                break
            self._recorder.returned_message(name, message)
            taken.append(message)
        if not taken:
            return
        upto = self._chance.choice(taken) if self._chance.random() < 0.4 else taken[-1]
        position = upto.id._replace(batch_index=upto.id.batch_index + 1)
        assert reader.cursor is not None
        if position <= reader.cursor.position:
            return
        ack = reader.ack() if upto is taken[-1] and self._chance.random() < 0.5 else reader.ack(upto)
        await self._consumed.acking(holder, position, cut_short(ack, self._chance, share=0.15))
