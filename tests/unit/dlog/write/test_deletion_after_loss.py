"""A log whose open ledger cannot be recovered is deleted if the operator gives that ledger up.

Nothing else gives up a ledger that has metadata: a writer would invent its end (docs/log-semantics.md#rule-23).
"""

from __future__ import annotations

import asyncio

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.errors import AppendIndeterminateError, DataLossError, LogNotFoundError, WriterDeposedError
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from ledger.errors import LedgerNotFoundError, LedgerRecoveryError
from ledger.model import LedgerId

LOG = "orders"


async def open_ledger(client: LogClient) -> LedgerId:
    """The newest ledger of a log, whose writer has died; the log has a sealed one, too."""
    writer = await client.open_writer(LOG, create=True)
    await writer.append(b"one")
    await writer.rotate()
    newest = LedgerId((await writer.append(b"two")).ledger_id)
    writer.abort()
    return newest


def test_one_whose_bookies_are_lost_is_deleted_with_its_log_once_it_is_given_up() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=LogConfig(deletion_grace_s=100.0)) as client:
            lost = await open_ledger(client)
            for bookie in cluster.bookies[:]:
                bookie.lose(host_too=False)
            for _ in range(3):
                cluster.add_bookie()
            await asyncio.sleep(60)  # the lost bookies' registrations end
            for call in (client.delete(LOG), client.delete(LOG, given_up=[LedgerId(lost + 1)])):
                with pytest.raises(
                    LedgerRecoveryError, match=f"given_up=\\[{lost}\\].*--given-up {lost}"
                ) as raised:
                    await call
                assert raised.value.ledger_id == lost
            with pytest.raises(LedgerRecoveryError):
                await client.open_writer(LOG, given_up=[lost])
            assert not await client.delete(LOG, given_up=[lost]), "a lost bookie may forget it"
            assert await client.ledgers.store.read_ledger(lost)
            await asyncio.sleep(100)
            assert await client.delete(LOG)
            with pytest.raises(LogNotFoundError):
                await client.describe(LOG)
            with pytest.raises(LedgerNotFoundError):
                await client.ledgers.store.read_ledger(lost)
            async with client.open_writer(LOG, create=True) as writer:
                await writer.append(b"anew")

    simulate(main, config=ClusterConfig(bookies=3))


def test_a_ledger_that_can_be_recovered_is_fenced_although_it_is_given_up() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer(LOG, create=True)
            ledger_id = LedgerId((await writer.append(b"one")).ledger_id)
            await other.delete(LOG, given_up=[ledger_id])
            with pytest.raises((WriterDeposedError, AppendIndeterminateError)):
                await writer.append(b"two")

    simulate(main)


def test_one_whose_metadata_is_lost_is_given_up_by_the_deletion_itself() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            lost = await open_ledger(client)
            await client.ledgers.delete(lost)
            with pytest.raises(
                DataLossError, match=f"delete.given_up=.{lost}.. or `dlog delete --given-up {lost}`"
            ):
                await client.delete(LOG)
            assert await client.delete(LOG, given_up=[lost])

    simulate(main)
