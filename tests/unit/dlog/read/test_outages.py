"""A reader while the metadata store or the bookies hang, on a simulated cluster.

Source: docs/log-semantics.md#rule-27.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dlog.client import LogClient
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.metadata.timing import MetadataTiming
from ledger.errors import MetadataUnavailableError, ReadError

LOG = "orders"
PAYLOADS = [b"one", b"two", b"three"]
LIMIT_S = 20.0
"""The default of `unavailable_timeout_s`."""

Scene = Callable[[SimulatedCluster, LogClient], Awaitable[None]]


def play(scene: Scene) -> None:
    """On a log of three entries, with a store whose requests wait as long as ZooKeeper's."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                for payload in PAYLOADS:
                    await writer.append(payload)
            await scene(cluster, client)

    timing = MetadataTiming(request_timeout_s=10.0, session_timeout_s=10.0)
    simulate(main, config=ClusterConfig(metadata=timing))


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_limit_holds_while_requests_to_the_store_hang() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with client.reader(LOG, until="latest") as reader:
            cluster.metadata.partition(cluster.loop.node.name)
            for _ in range(2):
                began = now()
                with pytest.raises(MetadataUnavailableError):
                    await anext(reader)
                assert LIMIT_S - 0.1 <= now() - began <= LIMIT_S + 0.1

    play(scene)


def test_a_reader_that_raised_an_outage_goes_on_once_it_has_ended() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with client.reader(LOG, until="latest") as reader:
            cluster.metadata.partition(cluster.loop.node.name)
            with pytest.raises(MetadataUnavailableError):
                await anext(reader)
            cluster.metadata.heal(cluster.loop.node.name)
            assert [message.payload async for message in reader] == PAYLOADS

    play(scene)


def test_an_outage_that_ended_before_the_reader_was_asked_is_not_raised() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with client.reader(LOG, until="latest") as reader:
            cluster.metadata.partition(cluster.loop.node.name)
            await asyncio.sleep(3 * LIMIT_S)
            cluster.metadata.heal(cluster.loop.node.name)
            await asyncio.sleep(LIMIT_S)
            assert [message.payload async for message in reader] == PAYLOADS

    play(scene)


def test_a_poll_during_an_outage_returns_none_until_the_limit() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with client.reader(LOG, until="latest") as reader:
            cluster.metadata.partition(cluster.loop.node.name)
            began = now()
            with pytest.raises(MetadataUnavailableError):
                while await reader.poll(7.0) is None:
                    assert now() - began <= LIMIT_S
            assert now() - began <= LIMIT_S + 0.1
            assert await reader.poll(1.0) is None

    play(scene)


def test_bookies_that_hang_are_raised_and_then_tried_anew() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with client.reader(LOG, until="latest") as reader:
            for bookie in cluster.bookies:
                cluster.pause(bookie.name)
            began = now()
            with pytest.raises(ReadError):
                await anext(reader)
            assert now() - began <= LIMIT_S + 0.1
            for bookie in cluster.bookies:
                cluster.resume(bookie.name)
            assert [message.payload async for message in reader] == PAYLOADS

    play(scene)


def test_a_tail_shows_an_outage_as_long_as_it_lasts() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with await cluster.client() as other, client.open_writer(LOG) as writer:
            await writer.append(b"four")
            reader = other.reader(LOG)
            for _ in range(4):
                await anext(reader)
            following = asyncio.create_task(anext(reader))
            await asyncio.sleep(LIMIT_S)
            assert reader.outage is None and reader.at_tail
            for number in range(3):
                cluster.kill_bookie(number)
            await asyncio.sleep(LIMIT_S)
            for _ in range(200):  # between attempts, and during one
                await asyncio.sleep(0.1)
                assert isinstance(reader.outage, ReadError)
            for number in range(3):
                await cluster.restart_bookie(number)
            await writer.append(b"five")
            assert (await following).payload == b"five"
            assert reader.outage is None
            await reader.close()

    play(scene)


def test_opening_waits_for_bookies_that_restart_and_raises_after_the_limit() -> None:
    """For a range whose end is on bookies, of which too few respond."""

    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        async with await cluster.client() as other, client.open_writer(LOG) as writer:
            await writer.append(b"four")
            for number in (0, 1):
                cluster.kill_bookie(number)
            began = now()
            with pytest.raises(ReadError):
                await other.reader(LOG, until="latest").open()
            assert LIMIT_S <= now() - began <= LIMIT_S + 5
            waiting = other.reader(LOG, start="earliest", until="latest")
            async with asyncio.TaskGroup() as tasks:
                opening = tasks.create_task(waiting.open())
                await asyncio.sleep(LIMIT_S / 2)
                assert isinstance(waiting.outage, ReadError) and not opening.done()
                assert waiting.waits_for == str(waiting.outage)
                for number in (0, 1):
                    await cluster.restart_bookie(number)
            assert [message.payload async for message in waiting] == [*PAYLOADS, b"four"]
            assert waiting.outage is None

    play(scene)
