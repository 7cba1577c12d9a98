"""A log whose list is in pages does what any log does, on a simulated cluster with tiny pages.

Source: docs/log-semantics.md#rule-1, #rule-26, #rule-28, #rule-33.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dlog.cli.upkeep.garbage import Collection
from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.core.metadata_update import Applied, NotOurs
from dlog.errors import HistoryPageError, LogNotFoundError, TrimmedError
from dlog.inspection.explain import explain
from dlog.inspection.history import history
from dlog.inspection.ledgers import deletable_ledgers, listed_ledgers
from dlog.inspection.overview import overview
from dlog.inspection.verify import verify
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.metadata import deletion, orphan_sweep
from dlog.metadata import store as store_module
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, MessageId, Retention
from dlog.read.resolution import Resolution
from dlog.read.time_seek import first_at_or_after
from dlog.testing import SimulatedCluster, simulate
from ledger.metadata.rounds import ROUNDS_MAX

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


async def a_page(client: LogClient) -> tuple[str, str]:
    """The name and the key of a page of ledgers of the log "orders"."""
    ref = (await client.describe("orders")).ref
    page = next(name for name in await pages_of(client) if name.startswith("0-"))
    return page, metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page)


async def lose_page(
    client: LogClient, level: int, number: int = 0, *, damages: bool = False
) -> tuple[str, list[int]]:
    """Lose a page of this level of the log "orders", by its place; its name, and the ids of the ledgers in it."""
    ref, record = (info := await client.describe("orders")).ref, info.record
    places = [name.split("-") for name in await pages_of(client)]
    firsts = sorted(int(place[1]) for place in places if int(place[0]) == level)
    found = await client.logs.ledger_list(ref, record).ref_to_page(level, firsts[number])
    assert found is not None
    ids = [one.ledger_id for one in await listed_ledgers(client, "orders")]
    key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, found.name)
    await client.ledgers.store.remove_record(key, 0)
    if damages:
        await client.ledgers.store.create_record(key, b"\xff")
    return found.name, [one for one in ids if found.first_id <= one <= found.last_id]


async def until_writable(client: LogClient, count: int) -> None:
    async with asyncio.timeout(60):
        while len(client.ledgers.bookies().writable) != count:  # noqa: ASYNC110 - the snapshot has no event
            await asyncio.sleep(0.1)


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the deletion of ledgers and the sweep have warned of."""
    found: list[str] = []

    def warning(message: str, *values: object) -> None:
        found.append(message % values)

    for module in (deletion, orphan_sweep):
        monkeypatch.setattr(module._log, "warning", warning)
    return found


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


def test_a_long_deletion_may_meet_any_number_of_changes_by_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends early only if the record keeps changing and nothing more can be noted as deleted."""
    monkeypatch.setattr(deletion, "_NOTED_AT_ONCE", 1)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            await client.shrink("orders", ids[-1])
            change = client.logs.compare_and_set
            met = 0

            async def met_half_the_time(ref: LogRef, *args: Any, **options: Any) -> Applied | NotOurs:
                nonlocal met
                met += 1
                if met % 2:
                    await other.logs.touch(ref)
                return await change(ref, *args, **options)

            client.logs.compare_and_set = met_half_the_time  # type: ignore[method-assign]
            await client.collect("orders")
            assert met > 2 * ROUNDS_MAX
            assert await deletable_ledgers(client, "orders") == 0

    simulate(main, seed=17)


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
            page, key = await a_page(client)
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


def test_retention_keeps_a_cursor_after_a_lost_page() -> None:
    """At an id that is not listed, so that the next ledger begins above it."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            async with client.open_writer("orders", create=True) as writer:
                for at in range(5):
                    await writer.append(b"message %d" % at)
                    if at == 1:
                        async with client.open_writer("another", create=True):
                            pass  # has the next ledger id
                    await writer.rotate()
            record = await record_of(client)
            [page] = record.pages
            after = MessageId(page.last_id + 1, 0, 0)
            assert after.ledger_id not in record.ledger_ids
            await client.logs._pages.remove(await client.logs.find(client.name("orders")), page.name)
            await client.set_cursor("orders", "c", after)
            await client.set_retention("orders", Retention(keep_unread=True))
            await other.apply_retention("orders")
            [cursor] = await client.cursors("orders")
            assert (await record_of(client)).trim_before <= cursor.position == after

    simulate(main, seed=7)


@pytest.mark.parametrize("damages", [False, True])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_log_with_a_lost_page_is_deleted(level: int, damages: bool, warned: list[str]) -> None:
    """Of the ledgers within its bounds only those of this log."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            await asyncio.gather(filled(client), filled(client, "payments"))
            others = [one.ledger_id for one in await listed_ledgers(client, "payments")]
            page, lost = await lose_page(client, level, damages=damages)
            ref = (await client.describe("orders")).ref
            assert any(lost[0] < one < lost[-1] for one in others)
            assert await other.delete("orders")
            assert [one async for one in client.ledgers.store.ledger_ids()] == others
            key = metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid)
            assert await client.ledgers.store.list_records(key) == []
            assert len(await filled(client)) == COUNT
            assert len([one for one in warned if page in one]) == 1

    simulate(main, seed=8)


@pytest.mark.parametrize("level", [0, 2])
def test_a_trim_up_to_the_end_of_a_lost_page_frees_what_it_listed(level: int, warned: list[str]) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            page, lost = await lose_page(client, level)
            left = [one for one in ids if one.ledger_id > lost[-1]]
            with pytest.raises(HistoryPageError, match=page):
                await other.shrink("orders", MessageId(lost[-1], 0, 0))
            await other.shrink("orders", MessageId(lost[-1] + 1, 0, 0))
            await other.shrink("orders", MessageId(lost[-1] + 1, 0, 0))
            async with other.reader("orders", until="latest") as reader:
                assert [message.id async for message in reader] == left
            for position in (MessageId(lost[0], 0, 0), MessageId(lost[-1], 5, 0)):
                with pytest.raises(TrimmedError):
                    async with other.reader("orders", position) as reader:
                        await anext(reader)
            assert await deletable_ledgers(other, "orders") == COUNT - len(left)
            await other.collect("orders")
            assert await deletable_ledgers(other, "orders") == 0
            listed = [one.ledger_id for one in await listed_ledgers(other, "orders")]
            assert [one async for one in client.ledgers.store.ledger_ids()] == listed
            assert len([one for one in warned if page in one]) == 1
            assert await other.admin.sweep(age_s=0.0) == []
            assert len([one for one in warned if page in one]) == 1

    simulate(main, seed=9)


def test_ledgers_around_a_lost_page_are_freed() -> None:
    """Those before it while it lists something, those after it once it does not."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = [one.ledger_id for one in await filled(client)]
            await client.shrink("orders", MessageId(ids[8], 0, 0))
            _, lost = await lose_page(client, 0, 4)
            assert lost == ids[8:10]
            await other.collect("orders")
            assert min([one async for one in client.ledgers.store.ledger_ids()]) == ids[8]
            await other.shrink("orders", MessageId(ids[-3], 0, 0))
            await other.collect("orders")
            assert min([one async for one in client.ledgers.store.ledger_ids()]) == ids[-3]
            assert await deletable_ledgers(other, "orders") == 0

    simulate(main, seed=10)


def test_ledgers_of_a_lost_page_are_kept_for_the_grace() -> None:
    """The page knew for how long; a bookie that is down may have forgotten them when it is back."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            await filled(client)
            _, lost = await lose_page(client, 0)
            await other.shrink("orders", MessageId(lost[-1] + 1, 0, 0))
            cluster.kill_bookie(0)
            await until_writable(other, 2)
            now_us = other.ledgers.environment.wall_us()
            record = await other.collect("orders")
            assert record is not None
            pending = {one.ledger_id: one.not_before_us for one in record.pending_delete}
            assert list(pending) == lost and min(pending.values()) >= now_us + record.grace_us
            assert await other.admin.sweep(age_s=0.0) == []
            assert set(lost) <= {one async for one in client.ledgers.store.ledger_ids()}
            cluster.start_bookie(0)
            await until_writable(other, 3)
            await other.collect("orders")
            assert not set(lost) & {one async for one in client.ledgers.store.ledger_ids()}

    simulate(main, seed=11)


def test_a_long_lost_page_is_passed_over_in_parts(monkeypatch: pytest.MonkeyPatch, warned: list[str]) -> None:
    """The record names few ledgers at a time that wait for their deletion."""
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", replace(SHORT_SIZES, pending_max=3))

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            page, lost = await lose_page(client, 2)
            assert len(lost) > 6
            await other.shrink("orders", ids[-1])
            record = await other.collect("orders")
            assert record is not None and record.pending_delete == ()
            listed = [one.ledger_id for one in await listed_ledgers(other, "orders")]
            assert [one async for one in client.ledgers.store.ledger_ids()] == listed
            assert len([one for one in warned if page in one]) == 1

    simulate(main, seed=13)


def test_a_lost_page_is_not_passed_over_while_too_many_ledgers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion makes more of them wait than a trim does."""
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", replace(SHORT_SIZES, pending_max=1))

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            await filled(client)
            _, lost = await lose_page(client, 0)
            for writing in (client, other):  # ledgers that a takeover seals
                await (await writing.open_writer("orders")).append(b"one")
            cluster.kill_bookie(0)
            await until_writable(other, 2)
            assert await other.delete("orders") is False
            record = await record_of(other)
            assert len(record.pending_delete) == 2 and record.deleted_below <= lost[0]
            assert set(lost) <= {one async for one in client.ledgers.store.ledger_ids()}
            cluster.start_bookie(0)
            await until_writable(other, 3)
            assert await other.delete("orders")
            assert [one async for one in client.ledgers.store.ledger_ids()] == []

    simulate(main, seed=16)


def test_gc_goes_on_where_the_ledgers_of_a_page_are_deleted_in_part_and_the_page_is_lost() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            await client.shrink("orders", ids[2])
            ref = (await client.describe("orders")).ref
            read = await client.logs.read(ref)
            partly = replace(read.value, deleted_below=ids[1].ledger_id, nonce=5)
            await client.logs.compare_and_set(ref, partly, read.version)
            await lose_page(client, 0)
            collection = Collection(600.0, dry_run=False)
            await collection.run(other)
            assert collection.damaged == []
            assert await deletable_ledgers(other, "orders") == 0
            assert ids[1].ledger_id not in [one async for one in client.ledgers.store.ledger_ids()]

    simulate(main, seed=15)


def test_a_page_that_a_later_release_has_written_is_not_passed_over() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ids = await filled(client)
            page, key = await a_page(client)
            value = (await client.ledgers.store.read_record(key)).value
            await client.ledgers.store.remove_record(key, 0)
            body = value[:4] + bytes([value[4] + 1]) + value[5:-4]
            await client.ledgers.store.create_record(key, body + zlib.crc32(body).to_bytes(4, "big"))
            before = [one async for one in client.ledgers.store.ledger_ids()]
            await other.shrink("orders", ids[4])
            with pytest.raises(HistoryPageError, match=f"page {page} .*: upgrade dlog$") as found:
                await other.collect("orders")
            assert found.value.newer_version == value[4] + 1
            assert [one async for one in client.ledgers.store.ledger_ids()] == before

    simulate(main, seed=14)


def test_a_sweep_reports_a_lost_page_once(warned: list[str]) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            await filled(client)
            page, lost = await lose_page(client, 1)
            assert len(lost) > 2
            before = [one async for one in client.ledgers.store.ledger_ids()]
            assert await other.admin.sweep(age_s=0.0) == []
            assert [one async for one in client.ledgers.store.ledger_ids()] == before
            assert len([one for one in warned if page in one]) == 1

    simulate(main, seed=12)
