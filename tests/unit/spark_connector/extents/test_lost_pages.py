"""A log that has lost a page of its ledger list, as Spark reads it: what is listed there is an error, never skipped."""

from __future__ import annotations

import pytest

from dlog.core import metadata_keys
from dlog.errors import HistoryPageError
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.metadata import store as store_module
from dlog.model import EARLIEST_ID, MessageId
from dlog.testing import SimulatedCluster, simulate
from spark_connector.extents.readable import readable_extents, tail_of


def test_extents_of_a_lost_page_are_an_error_and_those_after_it_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", SHORT_SIZES)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                for _ in range(20):
                    await writer.append(b"one")
                    await writer.rotate()
            ref, record = (info := await client.describe("orders")).ref, info.record
            page = await client.logs.ledger_list(ref, record).ref_to_page(0, 7)
            assert page is not None and page.first_id > 1
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
            await client.ledgers.store.remove_record(key, 0)
        async with await cluster.client() as client:
            for start in (EARLIEST_ID, MessageId(page.first_id, 0, 0), MessageId(page.last_id, 0, 0)):
                with pytest.raises(HistoryPageError, match=f"restore {key} "):
                    await readable_extents(client.logs, ref, client.ledgers, start)
            behind = MessageId(page.last_id + 1, 0, 0)
            extents = (await readable_extents(client.logs, ref, client.ledgers, behind)).extents
            assert [one.ledger_id for one in extents] == list(range(page.last_id + 1, 21))
            _, tail = await tail_of(client.logs, ref, client.ledgers)
            assert tail >= extents[-1].end

    simulate(main)
