"""The outcome of an append, for ids that no append got too (docs/log-semantics.md#rule-8)."""

from __future__ import annotations

import pytest

from dlog.client import LogClient
from dlog.errors import DataLossError
from dlog.model import NO_MESSAGE, MessageId, MessageIds
from dlog.read.resolution import Resolution
from dlog.testing import SimulatedCluster, simulate
from ledger.model import LedgerId
from tests.helpers.log.scripted_log import scripted_log


async def of_three(client: LogClient, *, seal: bool) -> MessageIds:
    """A log with one batch of three messages that readers see."""
    writer = await client.open_writer("orders", create=True)
    ids = await writer.append_many([b"a", b"b", b"c"])
    if seal:
        await writer.close()
    return ids


@pytest.mark.parametrize("seal", [False, True])
def test_a_batch_has_the_messages_that_its_entry_says(seal: bool) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await of_three(client, seal=seal)
            for message_id in ids:
                assert await other.resolve("orders", message_id) is Resolution.COMMITTED
            for index in (3, 99):
                beyond = ids[0]._replace(batch_index=index)
                assert await other.resolve("orders", beyond) is Resolution.ABSENT
                assert (await other.explain("orders", beyond)).resolution is Resolution.ABSENT

    simulate(main)


def test_an_id_that_no_append_gets_is_absent() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            first = (await of_three(client, seal=False))[0]
            for never in (first._replace(entry_id=-1), first._replace(batch_index=-1), NO_MESSAGE):
                assert await client.resolve("orders", never) is Resolution.ABSENT

    simulate(main)


def test_a_batch_in_flight_is_undecided_at_every_index() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            first = (await of_three(client, seal=False))[0]
            for index in (0, 1, 99):
                waiting = MessageId(first.ledger_id, first.entry_id + 1, index)
                assert await client.resolve("orders", waiting) is Resolution.UNDECIDED

    simulate(main)


async def test_a_lost_entry_is_an_error_and_not_absent() -> None:
    async with scripted_log() as log, log.client() as client:
        ids = await of_three(client, seal=True)
        for bookie in log.bookies:
            bookie.entries.pop((ids[0].ledger_id, ids[0].entry_id))
        for index in (1, 99):
            with pytest.raises(DataLossError, match="restore that entry on its bookies") as caught:
                await client.resolve("orders", ids[0]._replace(batch_index=index))
            assert caught.value.ledger_id == ids[0].ledger_id


async def test_a_message_of_a_lost_ledger_is_lost_and_not_absent() -> None:
    """Its end is not in the record, and LedgerNotFoundError would be among the errors that prove absence."""
    async with scripted_log() as log, log.client() as client:
        ids = await of_three(client, seal=False)
        await client.ledgers.delete(LedgerId(ids[0].ledger_id))
        with pytest.raises(DataLossError, match=rf"given_up=\[{ids[0].ledger_id}\]") as caught:
            await client.resolve("orders", ids[0])
        assert caught.value.ledger_id == ids[0].ledger_id
