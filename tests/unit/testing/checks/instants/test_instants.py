"""An acknowledgement that a new reader could miss, and a recovery that left an ack quorum unfenced, are found."""

from __future__ import annotations

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.testing.checks.instants.new_ledgers import NewLedgers
from dlog.testing.checks.instants.recovered_fences import RecoveredFences
from dlog.testing.checks.instants.visible_acks import VisibleAcks
from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate
from ledger.config import LedgerClientConfig
from ledger.core.metadata_changes import closed_by_recovery, mark_in_recovery
from ledger.metadata.update_loop import update_ledger
from ledger.model import EntryId, LedgerId, LedgerMetadata, QuorumSizes
from ledger.placement.config import PlacementConfig


def forget_lac(cluster: SimulatedCluster, ledger_id: LedgerId, bookies: int) -> None:
    for bookie in cluster.bookies[:bookies]:
        assert bookie.server is not None and bookie.server.storage is not None
        state = bookie.server.storage.ledger(ledger_id)
        assert state is not None
        state.lac = -1


@pytest.mark.parametrize("forgetful", [0, 1, 2])
def test_an_acknowledged_message_that_too_few_bookies_show_is_found(forgetful: int) -> None:
    wrong: list[str] = []

    async def main(cluster: SimulatedCluster) -> None:
        client = await cluster.client()
        async with client.open_writer("log", create=True) as writer:
            message_id = await writer.append(b"one")
            forget_lac(cluster, LedgerId(message_id.ledger_id), forgetful)
            VisibleAcks(cluster, wrong).check(message_id)
        VisibleAcks(cluster, wrong).check(message_id)  # metadata shows it: the ledger is closed
        await client.close()

    simulate(main)
    # On an ack quorum of two it was stored: with one of them it is still on the third, or not.
    assert bool(wrong) if forgetful == 2 else len(wrong) <= forgetful
    assert all(each.startswith("c9_acknowledged_when_visible: ") for each in wrong)


@pytest.mark.parametrize("fences", [True, False])
def test_a_recovery_that_closes_an_unfenced_ledger_is_found(fences: bool) -> None:
    wrong: list[str] = []

    async def main(cluster: SimulatedCluster) -> None:
        RecoveredFences(cluster, wrong)
        client = await cluster.client()
        writer = await client.open_writer("log", create=True)
        message_id = await writer.append(b"one")
        ledger_id = LedgerId(message_id.ledger_id)
        if fences:
            await (await client.ledgers.open_with_recovery(ledger_id, b"")).close()
        else:
            await close_without_fence(client, ledger_id)
        writer.abort()
        await writer.close()
        await client.close()

    simulate(main)
    assert [each.partition(":")[0] for each in wrong] == ["c15_fenced_when_closed"] * (0 if fences else 3)


async def close_without_fence(client: LogClient, ledger_id: LedgerId) -> None:
    store, environment = client.ledgers.store, client.ledgers.environment

    def closed(found: LedgerMetadata) -> LedgerMetadata:
        return closed_by_recovery(found, [], EntryId(0), 3)

    for change in (mark_in_recovery, closed):
        before = await store.read_ledger(ledger_id)
        await update_ledger(store, ledger_id, before, lambda found: not found.closed, change, environment)


@pytest.mark.parametrize("enforce", [True, False])
def test_a_new_ledger_in_one_rack_is_found(enforce: bool) -> None:
    """Thirty ledgers on two of four bookies in two racks, chosen with or without regard to them."""
    wrong: list[str] = []
    placement = PlacementConfig(racks_min=2 if enforce else 1, enforce=enforce)

    async def main(cluster: SimulatedCluster) -> None:
        NewLedgers(cluster, 2, wrong)
        config = LogConfig(ledger=LedgerClientConfig(placement=placement))
        async with await cluster.client(config=config) as client:
            for _ in range(30):
                handle = await client.ledgers.create(QuorumSizes(ensemble=2, write=2, ack=1))
                await handle.close()

    simulate(main, config=ClusterConfig(bookies=4, racks=2))
    assert (wrong == []) if enforce else (0 < len(wrong) < 30)
    assert all(each.startswith("c14_new_ledgers_span_the_racks: ledger ") for each in wrong)
