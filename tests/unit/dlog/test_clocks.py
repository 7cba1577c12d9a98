"""A wall clock that jumps back an hour: what of a log depends on one, and what becomes of it.

Source: docs/log-semantics.md#rule-25, #rule-31, #rule-34.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dlog.client import LogClient
from dlog.model import Message, MessageId, Retention
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.kernel.environment import SimulatedEnvironment

LOG = "orders"
HOUR_S = 3600


def jump(client: LogClient, by_s: float) -> None:
    environment = client.ledgers.environment
    assert isinstance(environment, SimulatedEnvironment)
    environment.jump_wall_clock(by_s)


def instant(time_us: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)


async def messages(client: LogClient, start: datetime | None = None) -> list[Message]:
    async with client.reader(LOG, start, until="latest") as reader:
        return [message async for message in reader]


@pytest.mark.parametrize("takeover", [False, True])
def test_append_times_wait_until_the_clock_has_caught_up(takeover: bool) -> None:
    """By the same writer and by the next one; so a time still has one position."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            ids = [await writer.append(b"before")]
            jump(client, -HOUR_S)
            if takeover:
                await writer.close()
                writer = await client.open_writer(LOG)
            else:
                await writer.rotate()
            for payload in (b"after", b"later"):
                await asyncio.sleep(1)
                ids.append(await writer.append(payload))
            found = await messages(client)
            times = [message.append_time_us for message in found]
            assert [message.id for message in found] == ids
            assert times == sorted(times) and times[0] == times[-1]
            assert [message.id for message in await messages(client, instant(times[0]))] == ids
            cursor = await client.set_cursor(LOG, "c", instant(times[0] + 1))
            assert cursor.position > ids[-1]
            assert [event.pause_us or 0 for event in await client.history(LOG)] == [0, 0]
            assert (await client.cursor_lag(LOG, "c")).entries == 0
            writer.abort()

    simulate(main)


def test_nothing_is_trimmed_or_deleted_earlier() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            ids: list[MessageId] = []
            for payload in (b"0", b"1", b"2"):
                ids.append(await writer.append(payload))
                await writer.rotate()
                await asyncio.sleep(60)
            rules = Retention(max_age_s=90)
            # The newest ledger whose seal is recorded stays, too: it says what producers have appended.
            assert (await client.plan_retention(LOG, rules)).before == ids[1]
            jump(client, -HOUR_S)
            assert (await client.plan_retention(LOG, rules)).before is None
            await client.set_retention(LOG, rules)
            assert (await client.apply_retention(LOG)).before is None
            assert await client.sweep() == []
            await client.collect(LOG)
            assert [message.id for message in await messages(client)] == ids
            await asyncio.sleep(HOUR_S)
            assert (await client.plan_retention(LOG, rules)).before == ids[1]
            writer.abort()

    simulate(main)


def test_a_writer_keeps_its_log_and_hands_it_over() -> None:
    """The time of day decides neither whether an owner runs nor whether its acknowledgements may be delivered."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer(LOG, create=True)
            for by_s in (-HOUR_S, 25 * HOUR_S, -HOUR_S):
                jump(client, by_s)
                await writer.append(b"x")
            begun = asyncio.get_running_loop().time()
            async with other.open_writer(LOG, wait_for_current_owner=30) as next_writer:
                assert asyncio.get_running_loop().time() - begun < 1
                await next_writer.append(b"y")
            assert len(await messages(other)) == 4

    simulate(main)


def test_a_clock_that_was_ahead_when_the_ledger_was_created_does_not_count() -> None:
    """What was appended since has the right time, and so has what the next writer appends."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            jump(client, 24 * HOUR_S)
            async with client.open_writer(LOG, create=True) as writer:
                jump(client, -24 * HOUR_S)
                await writer.append(b"first")
            await asyncio.sleep(60)
            async with client.open_writer(LOG) as writer:
                now_us = client.ledgers.environment.wall_us()
                await writer.append(b"next")
            [_, following] = await messages(client)
            assert now_us <= following.append_time_us < now_us + 1_000_000

    simulate(main)
