"""How long a writer goes on without an ack quorum, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from dlog.testing import SimulatedCluster, simulate
from ledger.model import QuorumSizes
from ledger.writing.write_handle import WriteHandle

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_idle_writer_has_the_whole_time_each_time(seed: int) -> None:
    """Without a bookie to spare each restart of one takes the ack quorum away, and nothing is added in between."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            handle = await client.ledgers.create(QuorumSizes(ensemble=3, write=3, ack=3))
            await handle.add(b"zero")
            for _ in range(2):
                cluster.kill_bookie(0)
                await asyncio.sleep(client.ledgers.config.quorum_timeout_s / 3)
                cluster.start_bookie(0)
                await asyncio.sleep(60)
                assert not handle.failed_members
            assert handle.failed is None
            assert await handle.add(b"one") == 1

    simulate(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_time_in_which_the_process_was_stopped_does_not_count(seed: int) -> None:
    """Its bookies come back while it is stopped, and it learns that a moment after it goes on."""

    async def main(cluster: SimulatedCluster) -> None:
        handles: list[WriteHandle] = []

        async def write() -> None:
            async with await cluster.client() as client:
                handle = await client.ledgers.create(QuorumSizes())
                await handle.add(b"zero")
                handles.append(handle)
                await asyncio.sleep(1)
                assert await handle.add(b"one") == 1
                await handle.close()

        writing = cluster.run("writer", write)
        while not handles:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        for number in (0, 1):
            cluster.kill_bookie(number)
        await asyncio.sleep(3)
        cluster.pause("writer")
        await asyncio.sleep(20)
        for number in (0, 1):
            cluster.start_bookie(number)
        await asyncio.sleep(20)
        cluster.resume("writer")
        await writing

    simulate(main, seed=seed)
