"""Your service under takeover: its host stalls, a second instance takes the log over, the first one wakes up.

pytest examples/testing
"""

from __future__ import annotations

import asyncio

import pytest

from dlog.aio import LogClient
from dlog.errors import AppendIndeterminateError, WriterDeposedError
from dlog.testing import SimulatedCluster


class OrderService:
    """The code under test: one instance at a time may take orders."""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self.confirmed: list[bytes] = []

    async def run(self) -> str:
        """Take an order every tenth of a second, until somebody else has the log."""
        writer = await self._client.open_writer("orders", create=True)
        while True:
            order = b"order %d" % len(self.confirmed)
            try:
                await writer.append(order)
            except (WriterDeposedError, AppendIndeterminateError):
                return "deposed"
            self.confirmed.append(order)
            await asyncio.sleep(0.1)


@pytest.mark.dlog(seeds=3)
async def test_a_stalled_instance_confirms_nothing_once_another_has_taken_over(
    simulated_cluster: SimulatedCluster,
) -> None:
    cluster = simulated_cluster
    services: list[OrderService] = []

    async def instance() -> str:
        async with await cluster.client() as client:
            services.append(OrderService(client))
            return await services[-1].run()

    first = cluster.run("first", instance)
    await asyncio.sleep(2.05)
    cluster.pause("first")
    cluster.run("second", instance)
    await asyncio.sleep(10)
    cluster.resume("first")

    assert await first == "deposed"
    old, new = services
    confirmed = {*old.confirmed, *new.confirmed}
    async with await cluster.client() as client:
        in_log = [message.payload async for message in client.reader("orders", until="latest")]
    assert confirmed <= set(in_log)
    assert len(new.confirmed) > 50
