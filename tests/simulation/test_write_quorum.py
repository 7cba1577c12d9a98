"""The half of C14 that is skipped by name: after repair every entry has its write quorum of copies."""

from __future__ import annotations

import pytest

from dlog.testing import SimulatedCluster, simulate
from dlog.testing.checks.copies import audit


@pytest.mark.skip(reason="c14_write_quorum_after_repair: repair comes later")
def test_c14_write_quorum_after_repair() -> None:
    """One bookie misses entries that the others have; later all of them have all."""

    async def main(cluster: SimulatedCluster) -> list[str]:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                cluster.kill_bookie(0)
                await writer.append(b"with two copies")
                ledger_ids = (await client.describe("orders")).record.ledger_ids
            await cluster.restart_bookie(0)
            return await audit(client.ledgers, ledger_ids, repaired=True)

    assert simulate(main) == []
