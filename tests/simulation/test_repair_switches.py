"""What auditors and workers do when an operator switches repair off and on, or asks for an audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from dlog.testing import SimulatedCluster, simulate
from ledger.errors import MetadataUnavailableError
from ledger.model import LedgerId
from ledger.repair.auditor import Auditor
from ledger.repair.autorecovery import run_autorecovery
from ledger.repair.config import RepairConfig
from ledger.repair.worker import Worker
from tests.helpers.simulation.lost_bookies import (
    FOUR,
    QUICK,
    lose_one,
    names,
    unmarked,
    unregistered,
    until,
    written,
)


def test_a_worker_ends_with_the_ledgers_in_hand_once_repair_is_switched_off() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            ids = [await written(ledgers, 5) for _ in range(40)]
            lost = await lose_one(cluster, ledgers, ids[0])
            marked = [each for each in ids if await names(ledgers, each, lost)]
            for each in marked:
                await store.mark(each, {lost}, 1)

            async def done() -> int:
                return len(marked) - len([mark async for mark in store.marks()])

            async def has_begun() -> bool:
                return await done() > 0

            config = RepairConfig(poll_s=2.0, retry_first_s=2.0, bytes_per_s=5)
            running = asyncio.create_task(Worker(other.ledgers, config, "worker").run())
            await until(has_begun)
            await store.set_enabled(False)
            in_hand = await done() + config.ledgers_at_once
            await asyncio.sleep(200)
            assert in_hand < len(marked)
            assert await done() <= in_hand

            await store.set_enabled(True)

            async def all_done() -> bool:
                return await done() == len(marked)

            await until(all_done)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    simulate(main, config=FOUR)


def test_repair_switched_off_within_the_grace_of_an_open_ledger_fences_no_writer() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            found: list[LedgerId] = []

            async def write() -> None:
                async with await cluster.client() as writer:
                    found.append(await written(writer.ledgers, close=False))
                    await asyncio.sleep(3600)

            async def is_written() -> bool:
                return bool(found)

            cluster.run("writer", write)
            await until(is_written)
            cluster.pause("writer")
            (ledger_id,) = found
            lost = await lose_one(cluster, ledgers, ledger_id)
            await store.mark(ledger_id, {lost}, 1)
            running = asyncio.create_task(Worker(other.ledgers, QUICK, "worker").run())

            async def is_in_hand() -> bool:
                return await store.lock_holder(ledger_id) is not None

            async def is_closed() -> bool:
                return (await ledgers.store.read_ledger(ledger_id)).value.closed

            await until(is_in_hand)
            await asyncio.sleep(QUICK.open_ledger_grace_s / 2)
            await store.set_enabled(False)
            await asyncio.sleep(3 * QUICK.open_ledger_grace_s)
            assert not await is_closed()
            await store.set_enabled(True)
            await until(is_closed)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    simulate(main, config=FOUR)


def test_a_bookie_that_came_and_was_lost_while_repair_was_off_is_noticed_once_it_is_on() -> None:
    """Not a day later, with the check of all bookies."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, repair = client.ledgers, client.ledgers.store.repair
            number = 3
            bookie_id = cluster.bookies[number].bookie_id
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)

            async def audit_and_repair() -> None:
                await run_autorecovery(cluster.store(), cluster.environment(), QUICK)

            async def is_registered() -> bool:
                return (await ledgers.store.bookies()).find(bookie_id) is not None

            cluster.run("autorecovery", audit_and_repair)
            await asyncio.sleep(30)
            await repair.set_enabled(False)
            await asyncio.sleep(10)
            await cluster.restart_bookie(number)
            await until(is_registered)
            ids = [await written(ledgers, 5) for _ in range(10)]
            assert any([await names(ledgers, each, bookie_id) for each in ids])
            cluster.bookies[number].lose(host_too=True)
            await unregistered(ledgers, bookie_id)
            await asyncio.sleep(10)
            await repair.set_enabled(True)

            async def is_replaced() -> bool:
                return not any([await names(ledgers, each, bookie_id) for each in ids])

            await until(is_replaced)
            cluster.kill("autorecovery")

    simulate(main, config=FOUR)


def test_a_request_for_an_audit_outlives_an_error_of_the_metadata_store() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, repair, store = client.ledgers, client.ledgers.store.repair, other.ledgers.store
            ledger_id = await written(ledgers)
            await repair.set_lost_bookie_delay_s(86400)
            config = replace(QUICK, copy_check_interval_s=0)
            running = asyncio.create_task(Auditor(other.ledgers, config, "auditor:1").run())
            await asyncio.sleep(10)
            await lose_one(cluster, ledgers, ledger_id)
            await asyncio.sleep(10)
            has_failed = asyncio.Event()

            def fail() -> AsyncIterator[LedgerId]:
                del store.ledger_ids  # type: ignore[misc]
                has_failed.set()
                raise MetadataUnavailableError("the metadata store is away for a moment")

            store.ledger_ids = fail  # type: ignore[method-assign]
            assert await unmarked(ledgers)
            await repair.set_lost_bookie_delay_s(86400)

            async def is_marked() -> bool:
                return not await unmarked(ledgers)

            await has_failed.wait()
            await until(is_marked)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    simulate(main, config=FOUR)
