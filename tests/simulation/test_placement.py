"""Copies are spread over racks by writers, by recovery and by repair, and the auditor counts what is not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dlog.config import LogConfig
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.bookies import SimulatedBookie
from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig, Visibility
from ledger.errors import NotEnoughRacksError
from ledger.model import BookieId, LedgerId, QuorumSizes
from ledger.placement.config import PlacementConfig
from ledger.repair.auditor import Auditor
from ledger.repair.config import RepairConfig
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.locked_repair import LockedRepair
from ledger.repair.placement_check import check_placement

THREE = QuorumSizes(ensemble=3, write=3, ack=2)
STRIPED = QuorumSizes(ensemble=4, write=2, ack=2)
FOUR_IN_TWO_RACKS = ClusterConfig(bookies=4, racks=2)
SIX_IN_TWO_RACKS = ClusterConfig(bookies=6, racks=2)


def enforcing(racks: int = 2) -> LogConfig:
    placement = PlacementConfig(racks_min=racks, enforce=True)
    return LogConfig(ledger=LedgerClientConfig(placement=placement))


async def ensemble_of(ledgers: LedgerClient, ledger_id: LedgerId) -> tuple[BookieId, ...]:
    return (await ledgers.store.read_ledger(ledger_id)).value.last_fragment.ensemble


def racks_of(cluster: SimulatedCluster, ensemble: tuple[BookieId, ...]) -> set[str | None]:
    return {each.network_location for each in cluster.bookies if each.bookie_id in ensemble}


async def lose(cluster: SimulatedCluster, ledgers: LedgerClient, *lost: BookieId) -> None:
    """For good; returns once they are not registered any more."""
    for each in cluster.bookies:
        if each.bookie_id in lost:
            each.lose(host_too=True)
    async with asyncio.timeout(600):
        while True:
            bookies = await ledgers.store.bookies()
            if not any(bookies.find(each) for each in lost):
                return
            await asyncio.sleep(0.5)


def test_new_ledgers_and_ensemble_changes_span_the_racks_that_bookies_publish() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            for quorum in (THREE, STRIPED):
                handle = await ledgers.create(quorum)
                await handle.add(b"one")
                first = await ensemble_of(ledgers, handle.ledger_id)
                assert racks_of(cluster, first) == {"/rack-0", "/rack-1"}
                await lose(cluster, ledgers, first[0])
                await handle.add(b"two")
                async with asyncio.timeout(600):
                    while first[0] in await ensemble_of(ledgers, handle.ledger_id):  # noqa: ASYNC110 -- a keeper's task
                        await asyncio.sleep(0.5)
                assert (await check_placement(ledgers)).narrow == []
                await handle.close()

    simulate(main, seed=3, config=SIX_IN_TWO_RACKS)


def test_a_ledger_that_cannot_span_the_racks_is_refused_if_they_are_enforced() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=enforcing(racks=3)) as client:
            with pytest.raises(NotEnoughRacksError) as caught:
                await client.ledgers.create(THREE)
            assert (caught.value.racks, caught.value.racks_min) == (2, 3)
            assert [each async for each in client.ledgers.store.ledger_ids()] == []
            with pytest.raises(NotEnoughRacksError, match="must span 3 racks"):
                await client.open_writer("orders", create=True)
        async with await cluster.client(config=enforcing(racks=2)) as client:
            assert (await client.ledgers.create(THREE)).ledger_id is not None

    simulate(main, seed=1, config=SIX_IN_TWO_RACKS)


async def in_one_rack_but_for_one(cluster: SimulatedCluster) -> SimulatedBookie:
    """Move all of four bookies but the second one to a rack. What enforces two racks needs it in each ensemble."""
    cluster.kill_bookie(3)
    cluster.bookies[3].network_location = "/rack-0"
    await cluster.restart_bookie(3)
    await asyncio.sleep(5)
    return cluster.bookies[1]


def test_a_member_that_answers_is_kept_if_enforcement_lets_no_spare_replace_it() -> None:
    """Its registration ends, and it answers as before. A spare bookie is there, but in the rack of the others."""

    async def main(cluster: SimulatedCluster) -> None:
        only = await in_one_rack_but_for_one(cluster)
        async with await cluster.client(config=enforcing()) as client:
            handle = await client.ledgers.create(THREE)
            await handle.add(b"one")
            cluster.metadata.partition(only.name)
            for _ in range(60):
                await handle.add(b"more")
                await asyncio.sleep(1)
            assert (await client.ledgers.store.bookies()).find(only.bookie_id) is None
            assert handle.failed_members == 0
            cluster.heal()

    simulate(main, config=FOUR_IN_TWO_RACKS)


def test_a_writer_is_not_fenced_for_a_spare_that_enforcement_does_not_allow() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        only = await in_one_rack_but_for_one(cluster)
        async with await cluster.client(config=enforcing()) as client:
            handle = await client.ledgers.create(THREE)
            await handle.add(b"one")
            await lose(cluster, client.ledgers, only.bookie_id)
            repair = LockedRepair(client.ledgers, RepairConfig(open_ledger_grace_s=1.0), "test")
            outcome = await repair.drain(handle.ledger_id, Scope())
            assert outcome is not None and outcome.open_lost == (only.bookie_id,)
            assert "no bookie is left in a rack that placement allows" in outcome.left[0]
            await handle.add(b"two")
            await repair.close()

    simulate(main, config=FOUR_IN_TWO_RACKS)


def test_repair_keeps_the_racks() -> None:
    """The only member in its rack is lost."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            closed = await ledgers.create(THREE)
            await closed.add(b"closed")
            await closed.close()
            ensemble = await ensemble_of(ledgers, closed.ledger_id)
            racks = {each.bookie_id: each.network_location for each in cluster.bookies}
            alone = [each for each in ensemble if [racks[it] for it in ensemble].count(racks[each]) == 1]
            await lose(cluster, ledgers, *alone)
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(closed.ledger_id)
            await repair.close()
            assert outcome.complete and len(outcome.repaired) == 1
            assert racks_of(cluster, await ensemble_of(ledgers, closed.ledger_id)) == {"/rack-0", "/rack-1"}

    simulate(main, seed=2, config=SIX_IN_TWO_RACKS)


def test_repair_leaves_what_enforcement_forbids_and_says_so() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=enforcing(racks=3)) as client:
            ledgers = client.ledgers
            handle = await ledgers.create(THREE)
            await handle.add(b"one")
            await handle.close()
            ensemble = await ensemble_of(ledgers, handle.ledger_id)
            rack = next(each.network_location for each in cluster.bookies if each.bookie_id == ensemble[0])
            whole_rack = [each.bookie_id for each in cluster.bookies if each.network_location == rack]
            await lose(cluster, ledgers, *whole_rack)
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(handle.ledger_id)
            assert (
                not outcome.complete
                and "no bookie is left in a rack that placement allows" in outcome.left[0]
            )
            await repair.close()
        async with await cluster.client() as client:  # which does not enforce
            repair = LedgerRepair(client.ledgers)
            assert (await repair.repair(handle.ledger_id)).complete
            await repair.close()

    simulate(main, seed=4, config=ClusterConfig(bookies=6, racks=3))


def test_recovery_does_not_enforce_racks() -> None:
    """All bookies of a rack are lost, and the entry must be written back to another one."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=enforcing(racks=3)) as client:
            ledgers = client.ledgers
            all_three = QuorumSizes(ensemble=3, write=3, ack=3)
            handle = await ledgers.create(all_three, visibility=Visibility.FAST)
            await handle.add(b"one")
            first = await ensemble_of(ledgers, handle.ledger_id)
            rack = next(each.network_location for each in cluster.bookies if each.bookie_id == first[0])
            for each in cluster.bookies:
                if each.network_location == rack:
                    each.lose(host_too=True)
            found = await ledgers.open_with_recovery(handle.ledger_id)
            assert found.lac == 0
            ensemble = await ensemble_of(ledgers, handle.ledger_id)
            assert first[0] not in ensemble and len(racks_of(cluster, ensemble)) == 2

    simulate(main, seed=6, config=ClusterConfig(bookies=6, racks=3))


def test_the_auditor_counts_ledgers_in_too_few_racks(caplog: pytest.LogCaptureFixture) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            handle = await client.ledgers.create(THREE)
            await handle.close()
        async with await cluster.client(config=LogConfig(ledger=three_racks())) as client:
            ledgers = client.ledgers
            found = await check_placement(ledgers)
            assert (found.ledgers, found.narrow_ledgers, found.unknown) == (1, 1, 0)
            assert found.narrow[0].ensemble == await ensemble_of(ledgers, handle.ledger_id)
            config = RepairConfig(placement_check_interval_s=5.0, copy_check_interval_s=0.0, poll_s=1.0)
            auditor = asyncio.create_task(Auditor(ledgers, config, "auditor:1").run())
            times: list[int] = []
            async with asyncio.timeout(600):
                while len({*times}) < 2:
                    await asyncio.sleep(0.5)
                    if (checked := await ledgers.store.repair.placement_checked_ms()) is not None:
                        times.append(checked)
            auditor.cancel()
            await asyncio.wait([auditor])
            assert min({*times} - {min(times)}) - min(times) >= 5000

    def three_racks() -> LedgerClientConfig:
        return LedgerClientConfig(placement=PlacementConfig(racks_min=3))

    logger = logging.getLogger("ledger.repair.auditor")
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.WARNING, logger.name):
        simulate(main, seed=1, config=SIX_IN_TWO_RACKS)
    logger.removeHandler(caplog.handler)
    assert "the copies of 1 of 1 ledgers are in too few racks or zones" in caplog.text
