"""The check of decommissions finds a ledger that still names the bookie, and no other."""

from __future__ import annotations

from dlog.testing.checks.decommissions import (
    c23_nothing_depends_on_a_decommissioned_bookie,
    ledgers_that_name,
)
from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate
from tests.helpers.simulation.lost_bookies import written


def test_a_ledger_that_names_it_and_did_so_before_is_found() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            early = await written(client.ledgers)
            bookie_id = cluster.bookies[0].bookie_id
            before = ledgers_that_name(cluster.metadata, bookie_id)
            assert before == {early}
            await written(client.ledgers)
            [found] = c23_nothing_depends_on_a_decommissioned_bookie(cluster.metadata, bookie_id, before)
            assert f"ledger {early} names {bookie_id}" in found
            await client.ledgers.delete(early)
            assert not [*c23_nothing_depends_on_a_decommissioned_bookie(cluster.metadata, bookie_id, before)]

    simulate(main, config=ClusterConfig(bookies=3))
