"""Ranges with entries that no bookie has any more, in a log of two ledgers of which the second is open.

Source: docs/log-semantics.md#rule-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.tailing import Gap
from dlog.errors import DataLossError
from dlog.model import MessageId
from tests.helpers.log.scripted_log import scripted_log

LOG = "orders"
ENTRIES = 5
"""Of each ledger; each has two messages."""


@dataclass
class Loss:
    client: LogClient
    ids: list[MessageId]
    """Of the first message of each entry."""
    times: list[datetime]
    lost: Collection[int]
    end: MessageId

    async def items(self, **wanted: Any) -> list[Gap | bytes | None]:
        async with self.client.reader(LOG, on_data_loss="gap", **wanted) as reader:
            return [item if isinstance(item, Gap) else item.payload async for item in reader.items()]

    def after_older(self, time: datetime) -> MessageId:
        """The position after the last readable entry that is older than the time."""
        older = [at for at in range(2 * ENTRIES) if at not in self.lost and self.times[at] < time]
        return self.position(max(older, default=-1) + 1)

    def first_readable(self, time: datetime) -> MessageId:
        """The first readable entry that is not older."""
        found = (at for at in range(2 * ENTRIES) if at not in self.lost and self.times[at] >= time)
        return self.position(next(found, 2 * ENTRIES))

    def position(self, number: int) -> MessageId:
        return self.ids[number] if number < len(self.ids) else self.end


@asynccontextmanager
async def loss(*lost: int) -> AsyncIterator[Loss]:
    """`lost`: entries by number, from 0 to 9."""
    async with scripted_log() as log, log.client() as client, client.open_writer(LOG, create=True) as writer:
        ids: list[MessageId] = []
        for number in range(2 * ENTRIES):
            if number == ENTRIES:
                await writer.rotate()
            ids.append((await writer.append_many([b"%d-%d" % (number, each) for each in range(2)]))[0])
            await asyncio.sleep(0.001)
        assert writer.position is not None
        times = [
            datetime.fromtimestamp(0, UTC) + timedelta(microseconds=message.append_time_us)
            async for message in client.reader(LOG, until="latest")
            if message.id.batch_index == 0
        ]
        for number in lost:
            for bookie in log.bookies:
                bookie.entries.pop((ids[number].ledger_id, ids[number].entry_id), None)
        yield Loss(client, ids, times, lost, writer.position)


SOME = [
    (2,),
    (1, 2, 3),
    (0,),
    (4,),
    (4, 5),
    (3, 4, 5, 6),
    (0, 1, 2, 3, 4),
    (8, 9),
    (5, 6, 7, 8, 9),
    tuple(range(10)),
]


@pytest.mark.parametrize("lost", SOME)
async def test_a_range_of_times_skips_nothing_that_is_readable(lost: tuple[int, ...]) -> None:
    """And has nothing that is older. What is lost and may be in the range is a gap."""
    tick = timedelta(microseconds=1)
    async with loss(*lost) as found:
        for time in (found.times[0] - tick, *found.times, found.times[-1] + tick):
            begins = await found.items(start=time, until="latest")
            assert begins == await found.items(start=found.after_older(time), until="latest")
            ends = await found.items(until=time)
            assert ends == await found.items(until=found.first_readable(time))


@pytest.mark.parametrize("lost", SOME)
async def test_the_last_n_are_those_that_are_readable(lost: tuple[int, ...]) -> None:
    async with loss(*lost) as found:
        readable = [
            MessageId(*found.ids[at][:2], index)
            for at in range(2 * ENTRIES)
            if at not in lost
            for index in range(2)
        ]
        for count in (1, 2, 3, 8, 13, 20, 21):
            start = found.ids[0] if count > len(readable) else readable[-count]
            expected = await found.items(start=start, until="latest")
            assert await found.items(last=count, until="latest") == expected


async def test_a_cursor_is_set_to_a_time_before_what_is_lost() -> None:
    async with loss(1, 2, 3) as found:
        cursor = await found.client.set_cursor(LOG, "c", found.times[2])
        assert cursor.position == found.ids[1]
        items = await found.items(cursor="c", until="latest")
        assert [type(item) for item in items[:4]] == [Gap, Gap, Gap, bytes]


async def test_without_gaps_the_error_names_ways_out_that_work() -> None:
    async with loss(7) as found:
        for wanted in ({"last": 8, "until": "latest"}, {"start": found.times[7]}, {"until": found.times[7]}):
            with pytest.raises(
                DataLossError, match="bookies, or read past it with on_data_loss='gap'"
            ) as raised:
                await found.client.reader(LOG, **wanted).open()
            assert raised.value.ledger_id == found.ids[7].ledger_id
            await found.items(**{"until": "latest", **wanted})
        async with found.client.reader(LOG, start=found.ids[8], until="latest") as reader:
            assert len([message async for message in reader]) == 4


async def test_a_cursor_at_a_lost_entry_is_moved_as_its_error_advises() -> None:
    async with loss(5) as found:
        await found.client.set_cursor(LOG, "c", found.ids[5])
        with pytest.raises(DataLossError, match="move the cursor to") as raised:
            await anext(found.client.reader(LOG, cursor="c", until="latest"))
        assert raised.value.resume_at == found.ids[6]
        await found.client.set_cursor(LOG, "c", raised.value.resume_at)
        assert (await anext(found.client.reader(LOG, cursor="c", until="latest"))).id == found.ids[6]
