"""Shrink, delete, sweep, describe; on real bookies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import (
    LogExistsError,
    LogNotFoundError,
    ShrinkRefusedError,
    TrimmedError,
    UnknownPositionError,
    WriterDeposedError,
)
from dlog.model import LogState, MessageId
from dlog.read.resolution import Resolution
from dlog.write.active_ledger import LedgerMaker
from dlog.write.takeover_runner import new_owner
from ledger.environment import SystemEnvironment
from ledger.errors import LedgerNotFoundError, ReadError
from ledger.metadata.drivers import open_store
from ledger.model import LedgerId
from tests.helpers.log.producer import QUICK, Producer, client_of, kill, read_all, until
from tests.helpers.log.unsure_store import UnsureStore
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def ledgers_of(client: LogClient) -> list[LedgerId]:
    return [one async for one in client.ledgers.store.ledger_ids()]


async def test_create_list_and_describe(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=0) as cluster, client_of(cluster.uri) as client:
        assert await client.list() == []
        await client.create("orders")
        await client.create("events")
        assert await client.list() == ["events", "orders"]
        with pytest.raises(LogExistsError):
            await client.create("orders")
        info = await client.describe("orders")
        assert (info.record.epoch, info.record.owner, info.record.ledgers) == (0, None, ())
        with pytest.raises(LogNotFoundError):
            await client.describe("nothing")


async def test_shrink_hides_and_deletes_what_is_older(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        ids = []
        for number in range(6):
            ids.append(await writer.append(b"%d" % number))
            if number % 2:
                await writer.rotate()
        before = len(await ledgers_of(client))
        await client.shrink("orders", ids[3])
        assert [message.payload for message in await read_all(client, "orders")] == [b"3", b"4", b"5"]
        with pytest.raises(TrimmedError):
            async with client.reader("orders", ids[0], until="latest") as reader:
                _ = [message async for message in reader]
        await client.collect("orders")
        assert len(await ledgers_of(client)) == before - 1
        assert (await client.describe("orders")).record.pending_delete == ()


async def test_a_reader_that_returned_the_last_message_before_a_trim_has_missed_nothing(
    tmp_path: Path,
) -> None:
    """Its id says neither whether it was the last of its entry, nor whether that was its ledger's last."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        ids = await writer.append_many([b"one", b"two", b"three"])
        first = ids[0].ledger_id
        assert [each.batch_index for each in ids] == [0, 1, 2], "one entry, or this test proves nothing"

        async def after(where: MessageId) -> list[bytes]:
            async with client.reader("orders", after=where, until="latest") as reader:
                return [message.payload async for message in reader]

        record = await client.shrink("orders", MessageId(first, 1, 0))
        assert record.ledger_ids == (first,)
        assert await after(ids[-1]) == []
        with pytest.raises(TrimmedError):
            await after(ids[-2])

        await writer.rotate()
        last = await writer.append(b"four")
        await writer.rotate()
        await writer.append(b"five")
        await writer.rotate()  # the list learns how the first two ledgers ended, and keeps the second
        record = await client.shrink("orders", last)
        assert first not in record.ledger_ids
        assert await after(ids[-1]) == [b"four", b"five"]
        with pytest.raises(TrimmedError):
            await after(ids[-2])


async def test_shrink_above_the_tail_is_refused_and_names_the_limit(tmp_path: Path) -> None:
    """It would make later appends invisible (docs/log-semantics.md#rule-33)."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        last = await writer.append(b"one")
        tail = MessageId(last.ledger_id, last.entry_id + 1, 0)
        for above in (MessageId(tail.ledger_id, tail.entry_id, 1), MessageId(tail.ledger_id + 1, 0, 0)):
            with pytest.raises(ShrinkRefusedError) as caught:
                await client.shrink("orders", above)
            assert caught.value.limit == tail
        await client.shrink("orders", tail)
        assert await read_all(client, "orders") == []
        await writer.append(b"two")
        assert [message.payload for message in await read_all(client, "orders")] == [b"two"]


async def test_shrink_needs_no_bookie_below_the_recorded_seals(tmp_path: Path) -> None:
    """Source: docs/log-semantics.md#i15."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        first = await writer.append(b"one")
        await writer.rotate()
        await writer.append(b"two")
        await writer.close()
        for bookie in cluster.bookies:
            await kill(bookie)
        record = await client.shrink("orders", MessageId(first.ledger_id + 1, 0, 0))
        assert first.ledger_id not in record.ledger_ids


async def test_shrink_above_an_unsealed_ledgers_start_needs_proof(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        message_id = await writer.append(b"one")
        writer.abort()
        for bookie in cluster.bookies:
            await kill(bookie)
        with pytest.raises(ReadError, match="the tail cannot be determined now"):
            await client.shrink("orders", MessageId(message_id.ledger_id, message_id.entry_id + 1, 0))


async def test_delete_fences_the_writer_removes_all_and_frees_the_name(tmp_path: Path) -> None:
    """The old incarnation's writer can never touch the new one (docs/log-semantics.md#rule-5, #rule-34b)."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as one,
        client_of(cluster.uri) as two,
    ):
        old = await one.open_writer("orders", create=True)
        producer = Producer(old, "p")
        await producer.reached(200)
        await old.rotate()
        assert await two.delete("orders") is True
        assert isinstance(await producer.died(), WriterDeposedError)
        assert await two.list() == []
        await until(lambda: not old.active)
        assert await ledgers_of(two) == []
        with pytest.raises(LogNotFoundError):
            await two.open_writer("orders")
        new = await two.open_writer("orders", create=True)
        await new.append(b"fresh")
        assert new.record.log_uuid != old.record.log_uuid
        assert [message.payload for message in await read_all(two, "orders")] == [b"fresh"]


async def test_delete_waits_for_sleeping_writers_where_bookies_forget(tmp_path: Path) -> None:
    """A ledger whose seal was not recorded outlives the log for the grace (docs/log-semantics.md#rule-25)."""
    async with forked_cluster(tmp_path) as cluster:
        store = UnsureStore(await open_store(cluster.uri))
        store.forgetful = True
        async with LogClient(store, config=replace(QUICK, deletion_grace_s=1.0)) as client:
            await client.start()
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            assert await client.delete("orders") is False
            info = await client.describe("orders")
            assert info.record.state is LogState.DELETING
            [pending] = info.record.pending_delete
            await client.ledgers.store.read_ledger(pending.ledger_id)
            environment = SystemEnvironment()
            await until(lambda: environment.wall_us() > pending.not_before_us)
            assert await client.delete("orders") is True
            with pytest.raises(LedgerNotFoundError):
                await client.ledgers.store.read_ledger(pending.ledger_id)


async def test_a_takeover_drops_empty_ledgers_and_the_owner_deletes_them(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        for _ in range(3):
            writer = await client.open_writer("orders", create=True)
        await until(lambda: not writer.record.pending_delete)
        assert len((await client.describe("orders")).record.ledgers) == 1
        async with asyncio.timeout(10):
            while len(await ledgers_of(client)) > 1:  # noqa: ASYNC110 - the store has no event for it
                await asyncio.sleep(0.02)


async def test_the_sweep_deletes_only_what_can_never_be_listed(tmp_path: Path) -> None:
    """Source: docs/log-semantics.md#orphan-sweep."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        ref = await client.logs.find(client.name("orders"))
        maker = LedgerMaker(ref, new_owner(SystemEnvironment(), ""), client.ledgers, client.config)
        orphan = (await maker.create(1)).ledger_id
        other = (await client.ledgers.create(client.config.quorum)).ledger_id
        assert await client.admin.sweep() == []
        assert await client.admin.sweep(age_s=0) == [orphan]
        record = (await client.describe("orders")).record
        assert record.last_ledger_id == orphan, "whoever still had it in mind cannot list it"
        assert await writer.rotate() > other
        left = await ledgers_of(client)
        assert orphan not in left
        assert other in left
        assert set(record.ledger_ids) <= set(left)


async def test_the_sweep_takes_ledgers_whose_log_has_no_record_any_more(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        await client.create("orders")
        ref = await client.logs.find(client.name("orders"))
        maker = LedgerMaker(ref, new_owner(SystemEnvironment(), ""), client.ledgers, client.config)
        orphan = (await maker.create(1)).ledger_id
        metadata = (await client.ledgers.store.read_ledger(orphan)).value
        assert metadata.custom_value(metadata_keys.TAG_LOG_UUID) == ref.log_uuid.encode()
        assert await client.delete("orders")
        assert await client.admin.sweep(age_s=0) == [orphan]


async def test_resolve_reports_the_outcome_of_an_indeterminate_append_permanently(tmp_path: Path) -> None:
    """Source: docs/log-semantics.md#rule-8, #i6."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        first = await writer.append(b"first")
        assert await client.resolve("orders", first) is Resolution.COMMITTED
        futures = []
        for number in range(40):
            futures.append(await writer.submit(b"%d" % number))
            await writer.start_flush()
        await asyncio.sleep(0)
        writer.abort()
        unknown = [error.message_id for future in futures if (error := future.exception()) is not None]
        assert unknown
        assert {await client.resolve("orders", one) for one in unknown} <= {
            Resolution.COMMITTED,
            Resolution.UNDECIDED,
        }
        writer = await client.open_writer("orders", create=True)
        found = {message.id for message in await read_all(client, "orders")}
        expected = [Resolution.COMMITTED if one in found else Resolution.ABSENT for one in unknown]
        assert [await client.resolve("orders", one) for one in unknown] == expected
        last = await writer.append(b"last")
        await client.shrink("orders", last)
        assert await client.resolve("orders", first) is Resolution.TRIMMED
        with pytest.raises(UnknownPositionError):
            await client.resolve("orders", MessageId(last.ledger_id + 1, 0, 0))
