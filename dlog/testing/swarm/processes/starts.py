"""Where a reader of the swarm begins: at all places that the API names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.core.tailing import OnMissing
from dlog.model import EARLIEST_ID, MessageId
from dlog.read.config import ReaderConfig
from dlog.read.reader import Reader
from dlog.testing.checks.history import ReadFrom
from dlog.testing.checks.recorder import Recorder

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Start:
    """A place as `ReadFrom` names it."""

    place: str = "earliest"
    message_id: MessageId = EARLIEST_ID
    count: int = 0
    time_us: int = 0

    def reader(
        self,
        client: LogClient,
        log: str,
        config: ReaderConfig,
        *,
        until: str | MessageId | None = None,
        on_trimmed: OnMissing = OnMissing.FAIL,
    ) -> Reader:
        """A reader that begins there and is not open yet."""
        if self.place in ("latest", "last") and on_trimmed is OnMissing.FAIL:
            return client.tail(log, last=self.count, follow=until is None, config=config)
        match self.place:
            case "id":
                where: dict[str, Any] = {"start": self.message_id}
            case "after":
                where = {"after": str(self.message_id)}
            case "last":
                where = {"last": self.count}
            case "time":
                where = {"start": _EPOCH + timedelta(microseconds=self.time_us)}
            case place:
                where = {"start": place}
        return client.reader(log, **where, until=until, on_trimmed=on_trimmed, config=config)

    @asynccontextmanager
    async def opened(self, reader: Reader, name: str, recorder: Recorder) -> AsyncIterator[ReadFrom]:
        """Open the reader and record where it begins."""
        asked = recorder.now()
        async with reader:
            found = ReadFrom(
                self.place,
                self.message_id,
                self.count,
                asked,
                recorder.now(),
                reader.position,
                time_us=self.time_us,
            )
            recorder.starts[name] = found
            yield found


def draw_start(chance: Random, seen: Sequence[MessageId], times_us: Mapping[MessageId, int]) -> Start:
    """Mostly at or near what some reader has seen, also within a batch. An id need not exist.

    A time is not above all of those that were read: then the tail would be asked for.
    """
    kind = chance.random()
    if kind < 0.2 or not seen:
        return Start("earliest")
    if kind < 0.35:
        return Start("latest")
    if kind < 0.5:
        return Start("last", count=chance.choice((1, 2, 3, 10, 200)))
    near = chance.choice(seen)
    if kind < 0.65:
        return Start("after", near)
    if kind < 0.8:
        near = MessageId(near.ledger_id, near.entry_id + chance.randrange(3), chance.randrange(3))
    elif kind >= 0.9 and near in times_us:
        return Start("time", time_us=times_us[near] - chance.choice((0, 0, 1, 100_000)))
    return Start("id", near)
