"""Your consumer under a crash: bookies die while it reads, and it must see every message once, in order.

pytest examples/testing
"""

from __future__ import annotations

import asyncio

import pytest

from dlog.aio import LogClient
from dlog.testing import SimulatedCluster

READINGS = 200


async def sum_up(client: LogClient, readings: int) -> list[int]:
    """The code under test: running totals of what a sensor has sent."""
    totals: list[int] = []
    async with client.tail("sensor", start="earliest") as reader:
        async for message in reader:
            assert message.payload is not None
            totals.append(int(message.payload) + (totals[-1] if totals else 0))
            if len(totals) == readings:
                break
    return totals


async def measure(client: LogClient) -> None:
    async with client.open_writer("sensor", create=True) as writer:
        for number in range(READINGS):
            await writer.append(b"%d" % number)
            await asyncio.sleep(0.05)


@pytest.mark.dlog(seeds=3, bookies=4)
async def test_totals_are_right_although_bookies_crash(simulated_cluster: SimulatedCluster) -> None:
    cluster = simulated_cluster
    async with await cluster.client() as at_sensor, await cluster.client() as at_consumer:
        await at_sensor.create("sensor")
        measuring = asyncio.create_task(measure(at_sensor))
        summing = asyncio.create_task(sum_up(at_consumer, READINGS))
        await asyncio.sleep(3)
        cluster.kill_bookie(0)
        await asyncio.sleep(3)
        cluster.power_cut_bookie(1)
        cluster.start_bookie(0)
        await measuring
        totals = await summing
    assert totals == [number * (number + 1) // 2 for number in range(READINGS)]
