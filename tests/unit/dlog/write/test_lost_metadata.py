"""A writer whose open ledger has lost its metadata says so, and does not speak of a takeover.

Source: docs/log-semantics.md#rule-23.
"""

from __future__ import annotations

import pytest

from dlog.errors import AppendAbortedError
from dlog.testing import SimulatedCluster, simulate


def test_a_rotation_finds_that_the_metadata_of_the_ledger_is_lost() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            found = await writer.append(b"a")
            await client.ledgers.store.remove_ledger(found.ledger_id)
            for _ in range(2):
                with pytest.raises(
                    AppendAbortedError, match=f"lists ledger {found.ledger_id}, which no longer exists"
                ):
                    await writer.rotate()
            assert (await client.describe("orders")).record.owner == writer.owner

    simulate(main)
