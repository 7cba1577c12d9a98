"""The grace of an open ledger's writer: what happens during it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from ledger.client import LedgerClient
from ledger.model import BookieId, LedgerId
from ledger.repair.worker import Worker
from tests.helpers.simulation.lost_bookies import (
    FOUR,
    QUICK,
    THREE_OF_THREE,
    lose_one,
    unregistered,
    until,
)

GRACE_S = 60.0
Story = Callable[[LedgerClient, LedgerId, BookieId], Awaitable[None]]


async def within_the_grace(cluster: SimulatedCluster, story: Story) -> None:
    """`story`, from when a worker waits for the writer of an open ledger, which hangs, to replace a lost bookie."""
    async with await cluster.client() as client, await cluster.client() as other:
        ledgers, store = client.ledgers, client.ledgers.store.repair
        found: list[LedgerId] = []

        async def write() -> None:
            async with await cluster.client() as writer:
                handle = await writer.ledgers.create(THREE_OF_THREE)
                await handle.add(b"first")
                found.append(handle.ledger_id)
                while True:
                    await asyncio.sleep(1)
                    await handle.add(b"next")

        async def is_written() -> bool:
            return bool(found)

        async def is_in_hand() -> bool:
            return await store.lock_holder(found[0]) is not None

        cluster.run("writer", write)
        await until(is_written)
        cluster.pause("writer")
        lost = await lose_one(cluster, ledgers, found[0])
        await store.mark(found[0], {lost}, 1)
        config = replace(QUICK, open_ledger_grace_s=GRACE_S)
        running = asyncio.create_task(Worker(other.ledgers, config, "worker").run())
        await until(is_in_hand)
        await story(ledgers, found[0], lost)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def is_closed(ledgers: LedgerClient, ledger_id: LedgerId) -> bool:
    return (await ledgers.store.read_ledger(ledger_id)).value.closed


def test_a_writer_is_not_fenced_if_the_spare_bookie_is_lost_within_its_grace() -> None:
    """It would gain nothing, and the writer could not even begin another ledger."""

    async def main(cluster: SimulatedCluster) -> None:
        async def story(ledgers: LedgerClient, ledger_id: LedgerId, lost: BookieId) -> None:
            ensemble = (await ledgers.store.read_ledger(ledger_id)).value.last_fragment.ensemble
            [spare] = [each for each in cluster.bookies if each.bookie_id not in ensemble]
            spare.lose(host_too=True)
            await unregistered(ledgers, spare.bookie_id)
            await asyncio.sleep(3 * GRACE_S)
            assert not await is_closed(ledgers, ledger_id)

        await within_the_grace(cluster, story)

    simulate(main, config=FOUR)


def test_a_writer_has_its_grace_for_a_bookie_that_is_lost_within_that_of_another() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async def story(ledgers: LedgerClient, ledger_id: LedgerId, lost: BookieId) -> None:
            async def replaced() -> bool:
                metadata = (await ledgers.store.read_ledger(ledger_id)).value
                return lost not in metadata.last_fragment.ensemble

            begun = asyncio.get_running_loop().time()
            cluster.resume("writer")
            await until(replaced)
            cluster.pause("writer")
            await lose_one(cluster, ledgers, ledger_id)
            elapsed = asyncio.get_running_loop().time() - begun
            assert elapsed < GRACE_S - 10
            await asyncio.sleep(GRACE_S + 5 - elapsed)
            assert not await is_closed(ledgers, ledger_id)

            async def closed() -> bool:
                return await is_closed(ledgers, ledger_id)

            await until(closed)

        await within_the_grace(cluster, story)

    simulate(main, config=ClusterConfig(bookies=6))
