"""A log whose list is in pages does what any log does, on a simulated cluster with tiny pages.

Source: docs/log-semantics.md#rule-1, #rule-26, #rule-28, #rule-33.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import HistoryPageError, LogNotFoundError, TrimmedError
from dlog.inspection.explain import explain
from dlog.inspection.history import history
from dlog.inspection.ledgers import deletable_ledgers, listed_ledgers
from dlog.inspection.overview import overview
from dlog.inspection.verify import verify
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.metadata import store as store_module
from dlog.model import LogMetadata, MessageId
from dlog.read.resolution import Resolution
from dlog.read.time_seek import first_at_or_after
from dlog.testing import SimulatedCluster, simulate

COUNT = 40


@pytest.fixture(autouse=True)
def tiny_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", SHORT_SIZES)
    yield


async def filled(client: LogClient, log: str = "orders", count: int = COUNT) -> list[MessageId]:
    """A log with one message in each ledger, by three writers; the last one is open."""
    ids: list[MessageId] = []
    for start in range(0, count, count // 3 + 1):
        async with client.open_writer(log, create=True) as writer:
            for number in range(start, min(count, start + count // 3 + 1)):
                ids.append(await writer.append(b"%d" % number))
                await writer.rotate()
                await asyncio.sleep(1.0)
    return ids


async def record_of(client: LogClient, log: str = "orders") -> LogMetadata:
    return (await client.describe(log)).record


async def pages_of(client: LogClient, log: str = "orders") -> list[str]:
    ref = (await client.describe(log)).ref
    key = metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid)
    return await client.ledgers.store.list_records(key)


def test_it_is_read_from_anywhere() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = await filled(client)
            record = await record_of(client)
            assert len(record.ledgers) <= 5 and sum(page.ledgers for page in record.pages) > 30
            for at in (0, 1, 7, COUNT - 1):
                async with client.reader("orders", ids[at], until="latest") as reader:
                    assert [message.id async for message in reader] == ids[at:]
            for count in (1, 9, COUNT, COUNT + 5):
                async with client.reader("orders", last=count, until="latest") as reader:
                    assert [message.id async for message in reader] == ids[-count:]
            for at in (3, 20):
                assert await client.resolve("orders", ids[at]) is Resolution.COMMITTED
                after = MessageId(ids[at].ledger_id, 5, 0)
                assert await client.resolve("orders", after) is Resolution.ABSENT
                explained = await explain(client, "orders", ids[at])
                assert explained.message is not None and explained.message.payload == b"%d" % at
                time_us = explained.message.append_time_us
                ref = (await client.describe("orders")).ref
                for wanted_us in (time_us, time_us - 500_000):
                    found = await first_at_or_after(wanted_us, client.logs, ref, client.ledgers)
                    assert found == ids[at]
            assert len(await history(client, "orders")) == COUNT + 1, "the last ledger is empty"
            assert sum([copies.entries async for copies in verify(client, "orders")]) == COUNT
            found = await overview(client, "orders")
            assert (found.totals.ledgers, found.totals.messages) == (COUNT + 1, COUNT)

    simulate(main, seed=1)


def test_a_reader_follows_while_ledgers_move_into_pages() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            await client.create("orders")

            async def follow() -> list[MessageId]:
                found: list[MessageId] = []
                async with other.reader("orders") as reader:
                    async for message in reader:
                        found.append(message.id)
                        if len(found) == COUNT:
                            return found
                raise AssertionError("a log without an end has ended")

            following = asyncio.create_task(follow())
            assert await filled(client) == await following

    simulate(main, seed=2)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_trim_hides_and_deletes_what_is_in_pages(deletes: bool) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = await filled(client)
            for at in (5, 6, 21, COUNT - 2):
                ledgers = await listed_ledgers(client, "orders")
                await client.shrink("orders", ids[at])
                left = [one.ledger_id for one in ledgers if one.ledger_id >= ids[at].ledger_id]
                assert [one.ledger_id for one in await listed_ledgers(client, "orders")] == left
                waiting = len(ledgers) - len(left) if deletes else at
                assert await deletable_ledgers(client, "orders") == waiting
                if deletes:
                    await client.collect("orders")
                    assert await deletable_ledgers(client, "orders") == 0
                    record = await record_of(client)
                    assert record.pending_delete == () and record.deleted_below == record.first_id
                    assert [one async for one in client.ledgers.store.ledger_ids()] == left
                    assert (await overview(client, "orders")).totals.deletable == 0
                async with client.reader("orders", until="latest") as reader:
                    assert [message.id async for message in reader] == ids[at:]
                async with client.reader("orders", ids[at], until="latest") as reader:
                    assert [message.id async for message in reader] == ids[at:]
                with pytest.raises(TrimmedError) as trimmed:
                    async with client.reader("orders", ids[at - 1]) as reader:
                        await anext(reader)
                assert trimmed.value.earliest == ids[at]
                assert await client.resolve("orders", ids[2]) is Resolution.TRIMMED
            if deletes:
                record = await record_of(client)
                assert record.pages == () and await pages_of(client) == []

    simulate(main, seed=3)


def test_a_deletion_takes_everything_in_pages_with_it() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = await filled(client)
            await client.shrink("orders", ids[7])
            ref = (await client.describe("orders")).ref
            assert await client.delete("orders")
            assert [one async for one in client.ledgers.store.ledger_ids()] == []
            key = metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid)
            assert await client.ledgers.store.list_records(key) == []
            with pytest.raises(LogNotFoundError):
                await client.describe("orders")
            assert len(await filled(client)) == COUNT

    simulate(main, seed=4)


def test_a_sweep_leaves_what_pages_list_alone() -> None:
    """Also what has left the list and is not deleted yet: that is not the sweep's."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = await filled(client)
            await client.shrink("orders", ids[11])
            before = [one async for one in client.ledgers.store.ledger_ids()]
            assert await client.admin.sweep(age_s=0.0) == []
            assert [one async for one in client.ledgers.store.ledger_ids()] == before
            await client.collect("orders")
            assert await client.admin.sweep(age_s=0.0) == []
            assert len([one async for one in client.ledgers.store.ledger_ids()]) == len(before) - 11

    simulate(main, seed=5)


def test_a_conditional_append_finds_the_last_message_in_a_page() -> None:
    """All newer ledgers are empty: their writers were closed without an append."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            [last] = await filled(client, count=1)
            record = await record_of(client)
            assert record.find_recent(last.ledger_id) is not None
            async with client.open_writer("orders") as writer:
                following = await writer.append(b"next", expect_tail=last)
            assert following > last

    simulate(main, seed=6)


def test_a_lost_page_costs_only_what_it_lists() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            ref = (await client.describe("orders")).ref
            page = next(name for name in await pages_of(client) if name.startswith("0-"))
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page)
            await client.ledgers.store.remove_record(key, 0)
            lost = int(page.split("-")[1])
            with pytest.raises(HistoryPageError, match=page):
                async with other.reader("orders", MessageId(lost, 0, 0)) as reader:
                    await anext(reader)
            async with other.reader("orders", ids[-3], until="latest") as reader:
                assert [message.id async for message in reader] == ids[-3:]
            async with other.open_writer("orders") as writer:
                await writer.append(b"goes on")

    simulate(main, seed=7)
