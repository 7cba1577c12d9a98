"""Repair of a ledger with an entry that no bookie can give now."""

from __future__ import annotations

import asyncio

import pytest

from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.copies import audit
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.model import LedgerId, QuorumSizes
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.writing.write_handle import WriteHandle
from tests.helpers.simulation.lost_bookies import THREE_OF_THREE, unregistered


async def come_back(bookie: SimulatedBookie, handle: WriteHandle) -> None:
    """Return once the writer has taken it back."""
    failed = handle.failed_members
    bookie.start()
    while handle.failed_members == failed:  # noqa: ASYNC110 -- what is waited for is in other processes
        await asyncio.sleep(0.1)


async def lose(bookie: SimulatedBookie, ledgers: LedgerClient) -> None:
    bookie.lose(host_too=True)
    await unregistered(ledgers, bookie.bookie_id)


def holders(cluster: SimulatedCluster, ledger_id: LedgerId) -> list[int]:
    """Numbers of the spare bookies that have something of the ledger."""
    found = []
    for number in range(3, 8):
        server = cluster.bookies[number].server
        assert server is not None and server.storage is not None
        if server.storage.ledger(ledger_id) is not None:
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("write", "copied"), [(3, (0, 39, 41, 59, 60, 79)), (2, (0, 39, 42, 57, 60, 78))], ids=["all", "striped"]
)
def test_an_entry_that_no_bookie_can_give_keeps_a_member_from_none_of_the_others(
    write: int, copied: tuple[int, ...]
) -> None:
    """Of these there may be one copy left, on a bookie that is lost next."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            handle = await ledgers.create(
                QuorumSizes(ensemble=3, write=write, ack=1), visibility=Visibility.FAST
            )
            by_id = {each.bookie_id: each for each in cluster.bookies}
            first, second, third = (by_id[each] for each in handle.metadata.last_fragment.ensemble)
            for number in range(40):
                await handle.add(b"%d" % number)
            await asyncio.sleep(5)
            first.kill()
            second.kill()
            await handle.add(b"on the third alone")
            await come_back(second, handle)
            for number in range(41, 60):
                await handle.add(b"%d" % number)
            await asyncio.sleep(5)
            await come_back(first, handle)
            for number in range(60, 80):
                await handle.add(b"%d" % number)
            await asyncio.sleep(5)
            await handle.close()
            await lose(third, ledgers)
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(handle.ledger_id, Scope(suspects=frozenset({first.bookie_id})))
            assert not outcome.complete and "cannot be copied: " in outcome.left[0]
            await repair.close()
            await lose(second, ledgers)
            reader = await ledgers.open(handle.ledger_id)
            for entry_id in copied:
                await reader.read(entry_id, entry_id)

    simulate(main)


def test_a_copy_that_cannot_be_completed_is_not_made_again_and_again() -> None:
    """Each attempt would choose another bookie, and what it copies stays there until the ledger is deleted."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, (first, second, third, *spares) = client.ledgers, cluster.bookies
            for each in spares:
                each.kill()
                await unregistered(ledgers, each.bookie_id)
            handle = await ledgers.create(THREE_OF_THREE, visibility=Visibility.FAST)
            for number in range(40):
                await handle.add(b"%d" % number)
            await asyncio.sleep(5)
            first.kill()
            for number in range(20):
                await handle.add(b"missed %d" % number)
            await come_back(first, handle)
            await handle.add(b"last")
            await asyncio.sleep(5)
            await handle.close()
            for each in spares:
                each.start()
                await each.wait_until_serving()
            for each in (second, third):
                each.kill()
                await unregistered(ledgers, each.bookie_id)
            repair = LedgerRepair(ledgers)
            for _ in range(10):
                outcome = await repair.repair(handle.ledger_id)
                assert not outcome.complete and not outcome.repaired
                assert "entry 40 " in outcome.left[0]
            assert len(holders(cluster, handle.ledger_id)) == 1
            second.start()
            await second.wait_until_serving()
            await asyncio.sleep(1.0)  # until the client knows it
            suspects = Scope(suspects=frozenset({first.bookie_id}))
            assert (await repair.repair(handle.ledger_id, suspects)).complete
            assert await audit(ledgers, [handle.ledger_id], repaired=True) == []
            await repair.close()

    simulate(main, config=ClusterConfig(bookies=8))
