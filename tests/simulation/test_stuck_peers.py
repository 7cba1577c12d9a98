"""A takeover beside peers that ask every bookie for gigabytes and read none of it, in simulated time."""

from __future__ import annotations

import asyncio

import pytest

from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate
from tests.helpers.bookie.entries import add, batch_read

MIB = 1024 * 1024
LARGE_LEDGER = 10**9
SETTINGS = ClusterConfig(gc_interval_s=3600.0)
"""The large ledger is in no metadata."""


class StuckPeer(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.write(b"".join(batch_read(LARGE_LEDGER, 0) for _ in range(20)))


async def prepare(cluster: SimulatedCluster, host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    for entry_id in range(4):
        writer.write(add(LARGE_LEDGER, entry_id, bytes(MIB)))
        await reader.readexactly(28)
    writer.close()
    await writer.wait_closed()


async def first_writer(cluster: SimulatedCluster) -> None:
    """It leaves its ledger open, so that the next writer has to fence it and to read its end."""
    client = await cluster.client()
    writer = await client.open_writer("orders", create=True)
    await writer.append(b"one")
    await asyncio.sleep(1000)


@pytest.mark.parametrize("count", [32, 100])
def test_a_takeover_does_not_wait_for_peers_that_read_nothing(count: int) -> None:
    """It waits for its plain read of the last entry only, until peers for which reads wait are cut off."""

    async def stuck(cluster: SimulatedCluster, places: list[tuple[str, int]]) -> None:
        loop = asyncio.get_running_loop()
        for place in places:
            for _ in range(count):
                await loop.create_connection(StuckPeer, *place)
        await asyncio.sleep(1000)

    async def main(cluster: SimulatedCluster) -> float:
        places = []
        for bookie in cluster.bookies:
            host, _, port = bookie.bookie_id.rpartition(":")
            places.append((host, int(port)))
            await prepare(cluster, host, int(port))
        cluster.run("first", lambda: first_writer(cluster))
        await asyncio.sleep(1.0)
        running = cluster.run("stuck", lambda: stuck(cluster, places))
        await asyncio.sleep(1.0)
        for bookie in cluster.bookies:
            assert bookie.server is not None
            connections = bookie.server.connections
            assert connections is not None
            assert connections.answer_budget.unsent_bytes >= 64 * MIB
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            await writer.append(b"two")
            took_s = float(loop.time() - started)
        cluster.kill("stuck")
        cluster.kill("first")
        running.cancel()
        return took_s

    assert simulate(main, config=SETTINGS) < 4.0
