"""`bookie recover` and `decommission` where something is in the way: a damaged ledger, no spare bookie; and marks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bookie_server.tools.repair.work import _facts
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import LogStoreError, RecordNotFoundError
from ledger.metadata.repair_store import UnderReplicated
from ledger.model import BookieId
from ledger.repair.client import RepairClient
from ledger.repair.errors import StillNeededError
from tests.helpers.simulation.lost_bookies import (
    FOUR,
    QUICK,
    THREE_OF_THREE,
    damage_metadata,
    lose_one,
    names,
    unregistered,
    written,
)


@pytest.mark.parametrize("verb", ["recover", "decommission"])
def test_a_ledger_with_damaged_metadata_is_left_and_the_others_are_copied(verb: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers = client.ledgers
            whole, damaged = await written(ledgers), await written(ledgers)
            lost = await lose_one(cluster, ledgers, whole)
            damage_metadata(ledgers, damaged)
            await ledgers.store.repair.mark(damaged, [lost], 5)
            repair = RepairClient(ledgers, QUICK)
            drained = await (repair.recover(lost) if verb == "recover" else repair.decommission(lost))
            assert not await names(ledgers, whole, lost)
            assert (list(drained.left), drained.unreadable) == ([damaged], 1)
            assert drained.left[damaged].left == [f"the metadata of ledger {damaged} is damaged"]
            with pytest.raises(StillNeededError, match=r"unknown whether 1 ledger .* depends on"):
                _facts(drained, dry_run=False)
            assert lost in await ledgers.store.list_cookies(), "it may still be needed"
            assert not (await RepairClient(other.ledgers, QUICK).decommission(lost)).left
            assert lost not in await ledgers.store.list_cookies()

    simulate(main, config=FOUR)


def test_a_dry_run_says_where_no_bookie_is_left() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledger_id = await written(client.ledgers)
            lost = await lose_one(cluster, client.ledgers, ledger_id)
            looked = await RepairClient(client.ledgers, QUICK).recover(lost, dry_run=True)
            assert looked.left[ledger_id].left == [
                f"fragment at entry 0, 40 entries: {lost} is to be replaced, and no bookie is left"
            ]

    simulate(main)


def test_a_dry_run_promises_a_bookie_to_one_position() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledger_id = await written(client.ledgers)
            lost = await lose_one(cluster, client.ledgers, ledger_id)
            members = (await client.ledgers.store.read_ledger(ledger_id)).value.members()
            also = next(each for each in members if each != lost)
            other = next(each for each in cluster.bookies if each.bookie_id == also)
            other.lose(host_too=True)
            await unregistered(client.ledgers, also)
            looked = await RepairClient(client.ledgers, QUICK).recover(lost, dry_run=True)
            first, second = looked.left[ledger_id].left
            assert first.endswith("is to be replaced")
            assert second.endswith("is to be replaced, and no bookie is left")

    simulate(main, config=FOUR)


def test_a_mark_that_names_the_drained_bookie_alone_is_removed() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            marked, suspected = await written(ledgers), await written(ledgers)
            lost = await lose_one(cluster, ledgers, marked)
            members = (await ledgers.store.read_ledger(suspected)).value.members()
            other = next(each for each in members if each != lost)
            await ledgers.store.repair.mark(marked, [lost], 5)
            await ledgers.store.repair.mark(suspected, [lost, other], 6)
            assert not (await RepairClient(ledgers, QUICK).recover(lost)).left
            left = [mark async for mark in ledgers.store.repair.marks()]
            assert left == [UnderReplicated(suspected, tuple(sorted((lost, other))), 6)], (
                "its copies were not read"
            )

    simulate(main, config=FOUR)


@pytest.mark.parametrize("verb", ["recover", "decommission"])
def test_no_mark_is_left_that_asks_for_copies_of_the_drained_bookie_alone(verb: str) -> None:
    """Neither that of its own recovery of an open ledger, nor that of a ledger that an interrupted run has repaired."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, repair = client.ledgers, RepairClient(client.ledgers, QUICK)
            repaired = await written(ledgers, settle_s=1.0)
            members = set((await ledgers.store.read_ledger(repaired)).value.members())
            [bookie] = [each for each in cluster.bookies if each.bookie_id not in members]
            lost = bookie.bookie_id
            while lost not in (handle := await ledgers.create(THREE_OF_THREE)).metadata.members():
                await handle.close()
            await handle.add(b"first")
            await asyncio.sleep(1.0)  # until all members have it
            bookie.lose(host_too=True)
            await unregistered(ledgers, lost)
            handle.abandon(LogStoreError("its writer has ended"))
            await ledgers.store.repair.mark(repaired, [lost], 5)
            drained = await (repair.recover(lost) if verb == "recover" else repair.decommission(lost))
            assert (drained.left, drained.entries) == ({}, 1)
            assert [mark async for mark in ledgers.store.repair.marks()] == []

    simulate(main, config=FOUR)


@pytest.mark.parametrize("verb", ["recover", "decommission"])
def test_a_ledger_that_cannot_be_closed_is_left_and_the_others_are_copied(verb: str) -> None:
    """Its bookies have another password than its metadata, as after a mistake of another tool."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            handle = await ledgers.create(THREE_OF_THREE)
            await handle.add(b"first")
            refused, whole = handle.ledger_id, await written(ledgers)
            lost = await lose_one(cluster, ledgers, whole)
            handle.abandon(LogStoreError("its writer has ended"))
            found = await ledgers.store.read_ledger(refused)
            assert lost in found.value.members()
            await ledgers.store.write_ledger(refused, replace(found.value, password=b"other"), found.version)
            repair = RepairClient(ledgers, QUICK)
            drained = await (repair.recover(lost) if verb == "recover" else repair.decommission(lost))
            assert not await names(ledgers, whole, lost)
            assert list(drained.left) == [refused]
            assert "password" in drained.left[refused].left[0]

    simulate(main, config=FOUR)


@pytest.mark.parametrize("only", [True, False])
def test_a_bookie_that_only_a_damaged_ledger_may_name_is_not_said_to_be_named_by_none(only: bool) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            damaged = await written(client.ledgers)
            damage_metadata(client.ledgers, damaged)
            repair = RepairClient(client.ledgers, QUICK)
            with pytest.raises(RecordNotFoundError) as raised:
                await repair.recover(BookieId("unknown:3181"), only=damaged if only else None)
            assert f"the metadata of ledger {damaged}, which may name it, cannot be used" in str(raised.value)
            assert "does not name it" not in str(raised.value)

    simulate(main, config=FOUR)
