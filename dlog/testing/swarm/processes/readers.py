"""Readers of the swarm: each has one tail for as long as it lives, and reads from random places next to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TypeVar

from dlog.client import LogClient
from dlog.core.tailing import Gap, OnMissing
from dlog.errors import LogNotFoundError, TrimmedError
from dlog.model import MessageId
from dlog.read.config import ReaderConfig
from dlog.read.reader import Reader
from dlog.testing.checks.history import WholeRead
from dlog.testing.checks.recorder import Recorder
from dlog.testing.swarm.processes.starts import Start, draw_start
from ledger.errors import LogStoreError, UnavailableError

T = TypeVar("T")
_ENOUGH = (5, 50, 500)
"""Messages after which a reader goes on in another way, or starts anew somewhere else."""
_NEAR = 8
"""Messages among which a reader that is to end early looks for one within a batch."""
_MORE = 20
"""Messages for which a reader looks for a batch of several to stop in."""
_TRY_AGAIN_S = 0.2
_WAYS = ("messages", "batches", "poll", "items")


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
        self._tail: Reader | None = None
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    def has_passed(self, message_id: MessageId) -> bool:
        """Whether its tail has returned everything up to this message, or began after it."""
        return self._tail is not None and self._tail.position > message_id

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow(), name=f"{self._name} tail")
            for at_once in range(self._chance.choice((1, 1, 1, 1, 1, 3))):
                name = f"{self._name}.{at_once}"
                group.create_task(self._read_again_and_again(name), name=f"{self._name} reads {at_once}")

    # ---- the tail

    async def follow(self) -> None:
        """A reader without an end that is never given up from here. It may end by itself only before it has begun."""
        turn = 0
        while True:
            turn += 1
            name, start = f"{self._name}.tail{turn}", self._draw_start()
            reader = self._reader(name, start, on_trimmed=OnMissing.SKIP)
            self._recorder.may_skip(name)
            try:
                async with start.opened(reader, name, self._recorder):
                    self._tail = reader
                    while not await self._take(
                        name,
                        reader,
                        self._chance.choice(("messages", "batches")),
                        self._chance.randint(1, 50),
                    ):
                        pass
                    self._ended_by_itself(name, reader)
            except (UnavailableError, LogNotFoundError) as error:
                if self._recorder.has_returned(name):
                    self.wrong.append(
                        f"c17_progress: {name} had read before and must wait, but raised {error!r}"
                    )
            except LogStoreError as error:
                self.loud.append(f"{name} from {start}: {error!r}")
            await asyncio.sleep(_TRY_AGAIN_S)

    # ---- reads from random places

    async def _read_again_and_again(self, name: str) -> None:
        turn = 0
        while True:
            turn += 1
            await self._read(f"{name}.{turn}")
            await asyncio.sleep(3.0 * self._chance.random())

    async def _read(self, name: str) -> None:
        start = Start()
        try:
            async with asyncio.timeout(self._chance.uniform(0.2, 10.0)):
                match self._chance.random():
                    case kind if kind < 0.15:
                        await self._read_all(name)
                    case kind if kind < 0.3:
                        start = Start("last", count=self._chance.choice((1, 2, 3, 10, 200)))
                        await self._read_last(name, start)
                    case kind if kind < 0.42 and self._recorder.seen:
                        start = self._draw_start()
                        await self._read_until(name, start)
                    case _:
                        start = self._draw_start()
                        await self._read_from(name, start)
        except (TimeoutError, UnavailableError, LogNotFoundError, TrimmedError):
            return  # what it has read so far counts
        except LogStoreError as error:
            if not self._is_closed(name):
                self.loud.append(f"{name} from {start}: {error!r}")

    async def _read_from(self, name: str, start: Start) -> None:
        """In up to three parts, each in its own way, by the same reader or by one that begins at the stored position.

        All of them are one reader to the checks: between two parts nothing may be missing.
        """
        on_trimmed = self._chance.choice(tuple(OnMissing))
        if on_trimmed is not OnMissing.FAIL:
            self._recorder.may_skip(name)
        if on_trimmed is OnMissing.GAP:
            self._recorder.must_report(name)
        first = start
        for _ in range(3):
            reader = self._reader(name, start, on_trimmed=on_trimmed)
            async with start.opened(reader, name, self._recorder) if start is first else reader:
                ways = ("items",) if on_trimmed is OnMissing.GAP else _WAYS
                for _ in range(self._chance.randint(1, 2)):
                    if await self._take(
                        name, reader, self._chance.choice(ways), self._chance.choice(_ENOUGH)
                    ):
                        self._ended_by_itself(name, reader)
                        return
                start = Start("id", reader.position)
            if self._chance.random() < 0.5:
                return

    async def _read_last(self, name: str, start: Start) -> None:
        reader = self._reader(name, start, until="latest")
        async with start.opened(reader, name, self._recorder) as began:
            await self._take(name, reader, self._chance.choice(("messages", "batches")))
        self._recorder.starts[name] = replace(began, complete=True)

    async def _read_until(self, name: str, start: Start) -> None:
        """To an id, within a batch if there is one; perhaps one that comes later than all that was seen."""
        seen = self._recorder.seen
        near = [self._chance.choice(seen) for _ in range(_NEAR)]
        end = next((each for each in near if each.batch_index), near[-1])
        if start.place in ("latest", "last", "time") or start.message_id > end:
            start = Start()
        end = end._replace(batch_index=end.batch_index + self._chance.choice((0, 0, 1)))
        self._recorder.may_skip(name)
        reader = self._reader(name, start, until=end, on_trimmed=OnMissing.SKIP)
        async with start.opened(reader, name, self._recorder) as began:
            began = self._recorder.starts[name] = replace(began, until=end)
            way = self._chance.choice(("messages", "batches", "poll"))
            if await self._take(name, reader, way):
                self._recorder.starts[name] = replace(began, complete=True, ended=self._recorder.now())

    async def _read_all(self, name: str) -> None:
        found: list[MessageId] = []
        start = Start()
        reader = self._reader(name, start, until="latest")
        async with start.opened(reader, name, self._recorder) as began, _closing(reader.batches()) as batches:
            async for batch in batches:
                for message in batch:
                    self._recorder.returned_message(name, message)
                    found.append(message.id)
        ended = self._recorder.now()
        self._recorder.whole_reads.append(WholeRead(name, began.asked, frozenset(found), ended=ended))

    def _reader(
        self,
        name: str,
        start: Start,
        *,
        until: str | MessageId | None = None,
        on_trimmed: OnMissing = OnMissing.FAIL,
    ) -> Reader:
        """One that is not open yet. `name` is what the history calls it."""
        return start.reader(self._client, self._log, self._config, until=until, on_trimmed=on_trimmed)

    def _draw_start(self) -> Start:
        return draw_start(self._chance, self._recorder.seen, self._recorder.times_us)

    def _is_closed(self, name: str) -> bool:
        """Whether another task has closed this reader: its end proves nothing."""
        return False

    def _ended_by_itself(self, name: str, reader: Reader) -> None:
        """A reader without an end did; the log is never sealed."""
        if not self._is_closed(name):
            self.wrong.append(
                f"c11_readers_end_where_they_were_asked: {name} has no end, but ended at {reader.position}"
            )

    # ---- ways to read

    async def _take(self, name: str, reader: Reader, way: str, enough: int = 1 << 30) -> bool:
        """Record what the reader returns, until these are enough messages. True if it has ended before.

        The reader can go on after it in any way: only whole batches are taken as batches.
        """
        match way:
            case "messages":
                async for message in reader:
                    self._recorder.returned_message(name, message)
                    enough -= 1
                    # Better within a batch, where it is harder to go on, than behind one.
                    if enough <= (0 if message.id.batch_index else -_MORE):
                        return False
            case "batches":
                async with _closing(reader.batches()) as batches:
                    async for batch in batches:
                        for message in batch:
                            self._recorder.returned_message(name, message)
                        enough -= len(batch)
                        if enough <= 0:
                            return False
            case "poll":
                while enough > 0:
                    found = await reader.poll(0.3)
                    if found is not None:
                        self._recorder.returned_message(name, found)
                    elif reader.ended:
                        return True
                    enough -= 1
                return False
            case _:
                async with _closing(reader.items()) as items:
                    async for item in items:
                        if isinstance(item, Gap):
                            self._recorder.reported(name, item.first, item.resume_at)
                        else:
                            self._recorder.returned_message(name, item)
                        enough -= 1
                        if enough <= 0:
                            return False
        return True


@asynccontextmanager
async def _closing(iterator: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """The iterator, closed at the end if it is a generator: left to the collector, it would go on at any moment."""
    try:
        yield iterator
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()
