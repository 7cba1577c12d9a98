"""The half of C14 that repair brings about: every entry has its write quorum of copies."""

from __future__ import annotations

from dlog.testing import SimulatedCluster, simulate
from dlog.testing.checks.copies import audit
from ledger.repair.ledger_repair import LedgerRepair


def test_c14_write_quorum_after_repair() -> None:
    """One bookie misses entries that the others have; after repair all of them have all."""

    async def main(cluster: SimulatedCluster) -> tuple[list[str], list[str]]:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                cluster.kill_bookie(0)
                await writer.append(b"with two copies")
                ledger_ids = (await client.describe("orders")).record.ledger_ids
            await cluster.restart_bookie(0)
            before = await audit(client.ledgers, ledger_ids, repaired=True)
            repair = LedgerRepair(client.ledgers)
            for ledger_id in ledger_ids:
                assert (await repair.repair(ledger_id)).complete
            await repair.close()
            return before, await audit(client.ledgers, ledger_ids, repaired=True)

    before, after = simulate(main)
    assert len(before) == 1 and "c14_write_quorum_after_repair" in before[0]
    assert after == []
