"""A bookie whose name another process has taken ends, and says so; the log goes on without it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bookie_server.errors import BookieAliveError
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.cluster import ClusterConfig


@pytest.mark.parametrize("seed", range(4))
def test_a_bookie_that_slept_while_another_registered_its_id_ends(seed: int) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        sleeper = cluster.bookies[0]
        assert sleeper.server is not None
        server = sleeper.server
        store = cluster.store()
        known = (await store.bookies()).find(sleeper.bookie_id)
        assert known is not None
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            first = await writer.append(b"before")

            cluster.pause(sleeper.name)
            await asyncio.sleep(60)  # longer than its session
            other = await store.register_bookie(replace(known, port=1))
            cluster.resume(sleeper.name)
            await asyncio.sleep(60)
            assert not sleeper.running
            assert isinstance(server.failure, BookieAliveError)
            assert server.failure.bookie_id == sleeper.bookie_id
            found = (await store.bookies()).find(sleeper.bookie_id)
            assert found is not None and found.port == 1, "it left the registration of the other one alone"
            second = await writer.append(b"after")
            await writer.close()
            read = [message.id async for message in client.reader("orders", until="latest")]
            assert read == [first, second]
        await other.close()
        await store.close()

    simulate(main, seed=seed, config=ClusterConfig(bookies=4))
