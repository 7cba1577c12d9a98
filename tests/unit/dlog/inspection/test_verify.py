"""The check of a log that goes on after ledgers that cannot be checked, in a simulated cluster."""

from __future__ import annotations

import asyncio

import pytest

from dlog.errors import DataLossError, LogNotFoundError
from dlog.inspection.verify import UncheckedLedger, verify
from dlog.testing import SimulatedCluster, simulate
from ledger.model import LedgerId
from tests.helpers.simulation.lost_bookies import damage_metadata


def test_ledgers_that_are_trimmed_in_the_meantime_are_left_out_and_lost_ones_are_results() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            ids = []
            for number in range(5):
                ids.append(await writer.append(b"%d" % number))
                await writer.rotate()
            lost = LedgerId(ids[3].ledger_id)
            await client.ledgers.delete(lost)
            seen = []
            async for found in verify(client, "orders"):
                seen.append((found.ledger_id, isinstance(found, UncheckedLedger)))
                if isinstance(found, UncheckedLedger):
                    assert isinstance(found.error, DataLossError)
                    assert found.error.ledger_id == lost
                if len(seen) == 1:
                    await client.shrink("orders", ids[2])
                    await asyncio.sleep(60.0)
                    await client.collect("orders")
            first, trimmed, kept, _, last = (one.ledger_id for one in ids)
            assert trimmed not in dict(seen)
            assert seen[:4] == [(first, False), (kept, False), (lost, True), (last, False)]

    simulate(main)


def test_a_log_that_does_not_exist_is_refused() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            with pytest.raises(LogNotFoundError):
                await anext(aiter(verify(client, "orders")))

    simulate(main)


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_the_other_looks_into_a_log_with_a_lost_ledger(how: str) -> None:
    """Its history is known from the record, and what became of its messages is a loss with a way out."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = []
            for number in range(3):
                async with client.open_writer("orders", create=True) as writer:
                    ids.append(await writer.append(b"%d" % number))
            before = [event.listed for event in await client.history("orders")]
            lost = LedgerId(ids[1].ledger_id)
            if how == "missing":
                await client.ledgers.delete(lost)
            else:
                damage_metadata(client.ledgers, lost)
            assert [event.listed for event in await client.history("orders")] == before
            with pytest.raises(DataLossError, match="restore the metadata store from a backup") as error:
                await client.explain("orders", ids[1])
            assert error.value.ledger_id == lost
            assert (await client.explain("orders", ids[2])).message is not None

    simulate(main)
