"""An explanation asks twice for the end of an open ledger, and perhaps other bookies: its parts agree all the same."""

from __future__ import annotations

from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import DataLossError
from dlog.inspection.explain import Explanation
from dlog.model import MessageId
from dlog.read.resolution import Resolution
from dlog.testing import SimulatedCluster, simulate
from ledger.client import LedgerClient
from ledger.metadata.memory import MemoryTransaction
from ledger.metadata.transactions import ledgers as stored_ledgers
from ledger.model import EntryId, LedgerId
from ledger.reading.read_handle import ReadHandle


def explained(monkeypatch: pytest.MonkeyPatch, *, batch_index: int, asks_the_late: int) -> Explanation:
    """Of a message in an open ledger; that opening reached only bookies that do not know the newest LAC."""
    honest, opened = LedgerClient.open, []

    async def open_ledger(
        self: LedgerClient, ledger_id: LedgerId, *arguments: Any, **others: Any
    ) -> ReadHandle:
        handle = await honest(self, ledger_id, *arguments, **others)
        opened.append(handle)
        if len(opened) == asks_the_late:
            handle._lac = EntryId(-1)
        return handle

    async def main(cluster: SimulatedCluster) -> Explanation:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            message_id = await writer.append(b"payload")
            monkeypatch.setattr(LedgerClient, "open", open_ledger)
            found = await _explain(client, message_id._replace(batch_index=batch_index))
            monkeypatch.setattr(LedgerClient, "open", honest)
            return found

    return simulate(main)


async def _explain(client: LogClient, message_id: MessageId) -> Explanation:
    return await client.explain("orders", message_id)


def test_a_committed_message_is_shown_although_the_second_answer_knows_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = explained(monkeypatch, batch_index=0, asks_the_late=2)
    assert found.resolution is Resolution.COMMITTED
    assert found.message is not None and found.message.payload == b"payload"
    assert found.last_readable == found.message_id.entry_id


@pytest.mark.parametrize(("batch_index", "resolution"), [(0, Resolution.COMMITTED), (1, Resolution.ABSENT)])
def test_what_the_second_answer_confirms_is_not_undecided(
    batch_index: int, resolution: Resolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = explained(monkeypatch, batch_index=batch_index, asks_the_late=1)
    assert found.resolution is resolution
    assert (found.message is not None) == (resolution is Resolution.COMMITTED)


@pytest.mark.parametrize("damaged", [b"", b"BookieMetadataFormatVersion\t3\n\x07"])
@pytest.mark.parametrize("entry_id", [0, 5])
def test_a_message_in_an_open_ledger_that_is_lost_is_data_loss_with_a_way_out(
    damaged: bytes, entry_id: int
) -> None:
    """Its outcome needs that ledger, too."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            lost = LedgerId((await writer.append(b"payload")).ledger_id)
            writer.abort()
            if damaged:
                tx = MemoryTransaction(cluster.metadata._cluster)
                stored_ledgers.write(tx, lost, damaged, stored_ledgers.read(tx, lost).version)
            else:
                await client.ledgers.delete(lost)
            with pytest.raises(DataLossError, match=rf"given_up=\[{lost}\]") as raised:
                await _explain(client, MessageId(lost, entry_id, 0))
            assert raised.value.ledger_id == lost

    simulate(main)
