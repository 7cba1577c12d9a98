"""Deletion where it is not known whether a bookie will remember it, on a simulated cluster.

Source: docs/log-semantics.md#rule-25.
"""

from __future__ import annotations

import asyncio

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.testing import SimulatedCluster, simulate


async def until_writable(client: LogClient, count: int) -> None:
    async with asyncio.timeout(60):
        while len(client.ledgers.bookies().writable) != count:  # noqa: ASYNC110 - the snapshot has no event
            await asyncio.sleep(0.1)


def test_a_bookie_that_is_down_holds_a_deletion_up_until_it_is_back() -> None:
    """What it will answer a sleeping writer is not known; what the other bookies promise is not enough."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=LogConfig()) as client:
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            cluster.kill_bookie(0)
            await until_writable(client, 2)
            assert await client.delete("orders") is False
            record = (await client.describe("orders")).record
            assert [one.ledger_id for one in record.pending_delete] != []
            assert await client.delete("orders") is False
            cluster.start_bookie(0)
            await until_writable(client, 3)
            assert await client.delete("orders") is True
            assert [one async for one in client.ledgers.store.ledger_ids()] == []

    simulate(main, seed=3)
