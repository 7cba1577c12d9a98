"""The lock of a ledger whose release fails: the worker's process lives on, and other clients need it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.testing import SimulatedCluster, simulate
from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.repair_store import RepairStore
from ledger.model import BookieId, LedgerId
from ledger.repair.draining import Draining
from ledger.repair.locked_repair import LockedRepair
from ledger.repair.worker import Worker
from tests.helpers.simulation.lost_bookies import (
    FOUR,
    QUICK,
    member,
    names,
    unmarked,
    unregistered,
    until,
    written,
)


def fail_one_release(monkeypatch: pytest.MonkeyPatch, store: RepairStore) -> None:
    """The store is away for one request."""
    write = store._write  # type: ignore[attr-defined]

    async def fails(job: Any) -> Any:
        if getattr(job, "func", None) is not None and job.func.__name__ == "release":
            monkeypatch.undo()
            raise MetadataUnavailableError("the metadata store is away")
        return await write(job)

    monkeypatch.setattr(store, "_write", fails)


async def marked_in_vain(cluster: SimulatedCluster, store: RepairStore, ledger_id: LedgerId) -> None:
    await store.mark(ledger_id, {BookieId(cluster.bookies[0].bookie_id)}, 1)


def test_a_lock_whose_release_failed_does_not_hold_up_a_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)
            bookie_id = cluster.bookies[number].bookie_id
            await marked_in_vain(cluster, store, ledger_id)
            fail_one_release(monkeypatch, other.ledgers.store.repair)
            running = asyncio.create_task(Worker(other.ledgers, QUICK, "worker").run())

            async def is_cleared() -> bool:
                return await unmarked(ledgers)

            await until(is_cleared)
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            draining = Draining(ledgers, bookie_id, QUICK)
            async with asyncio.timeout(600):
                assert not (await draining.recover()).left
            await draining.close()
            assert not await names(ledgers, ledger_id, bookie_id)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    simulate(main, config=FOUR)


def test_a_failed_release_leaves_the_outcome_of_the_repair_and_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then no other task of the process takes the lock: the release of the first would end its own."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            ledger_id = await written(ledgers)
            await marked_in_vain(cluster, store, ledger_id)
            fail_one_release(monkeypatch, store)
            locked = LockedRepair(ledgers, QUICK, "worker")
            outcome = await locked.of_mark(ledger_id)
            assert outcome is not None and outcome.complete
            assert await store.lock_holder(ledger_id) == "worker"
            assert await store.lock(ledger_id, "another task") is None
            await locked.close()
            assert await store.lock_holder(ledger_id) is None
            assert await store.lock(ledger_id, "another task") is not None

    simulate(main, config=FOUR)


def test_a_lock_whose_answer_was_lost_does_not_hold_up_a_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker has repaired the ledger in the meantime: it has no mark for which the lock is taken again."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)
            bookie_id = cluster.bookies[number].bookie_id
            await marked_in_vain(cluster, store, ledger_id)
            write = other.ledgers.store.repair._write  # type: ignore[attr-defined]

            async def loses_the_answer(job: Any) -> Any:
                if getattr(job, "func", None) is None or job.func.__name__ != "lock":
                    return await write(job)
                monkeypatch.undo()
                await LockedRepair(ledgers, QUICK, "first").of_mark(ledger_id)
                await write(job)
                raise MetadataOutcomeUnknownError("the answer was lost")

            monkeypatch.setattr(other.ledgers.store.repair, "_write", loses_the_answer)
            running = asyncio.create_task(Worker(other.ledgers, QUICK, "worker").run())

            async def is_cleared() -> bool:
                return await unmarked(ledgers)

            await until(is_cleared)
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            draining = Draining(ledgers, bookie_id, QUICK)
            async with asyncio.timeout(600):
                assert not (await draining.recover()).left
            await draining.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    simulate(main, config=FOUR)
