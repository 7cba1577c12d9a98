"""Rotation under load, and what happens to a writer whose bookies or ledgers fail; on real bookies."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlog.client import LogClient
from dlog.core.degraded import DegradedPolicy
from dlog.core.rotation_triggers import RotationLimits
from dlog.errors import AppendAbortedError, AppendIndeterminateError, AppendRejectedError
from dlog.model import NO_MESSAGE, MessageId
from ledger.errors import LogStoreError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from tests.helpers.log.producer import QUICK, Producer, client_of, kill, read_all, until
from tests.helpers.log.unsure_store import APPLIED, DROPPED, LATE, UnsureStore
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration

SMALL = replace(QUICK, rotation=RotationLimits(bytes_max=200_000, interval_min_s=0.05))


async def unsealed(client: LogClient, log: str) -> list[int]:
    """Listed ledgers that ledger metadata does not show as closed."""
    info = await client.describe(log)
    open_ones = []
    for listed in info.record.ledgers:
        metadata = (await client.ledgers.store.read_ledger(listed.ledger_id)).value
        if not metadata.closed:
            open_ones.append(listed.ledger_id)
    return open_ones


async def test_rotation_under_load_keeps_order_and_loses_nothing(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        producer = Producer(writer, "p", window=200)
        for _ in range(8):
            await producer.more(300)
            before = writer.record.ledgers[-1].ledger_id
            assert await writer.rotate() > before
            assert len(await unsealed(client, "orders")) <= 2
        await producer.stop()
        await writer.close()
        messages = await read_all(client, "orders")
        producer.check(messages)
        assert len(producer.acked) == producer.sent
        info = await client.describe("orders")
        assert len(info.record.ledgers) == 9
        assert await unsealed(client, "orders") == []
        counted = sum(one.seal.message_count for one in info.record.ledgers if one.seal)
        assert counted == len(messages)


async def test_acks_come_in_the_order_of_ids_across_rotations(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        acked: list[MessageId] = []
        for turn in range(5):
            for number in range(300):
                future = await writer.submit(b"%d" % number)
                future.add_done_callback(lambda done: acked.append(done.result()))
            if turn % 2:
                await writer.rotate()
        await writer.close()
        assert acked == sorted(acked)
        assert len(acked) == 1500


async def test_a_full_ledger_is_replaced_by_itself(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri, SMALL) as client:
        writer = await client.open_writer("orders", create=True)
        appended = 0
        while len(writer.record.ledgers) < 4:
            await writer.append_many([b"x" * 1000] * 40)
            appended += 40
        assert len(await read_all(client, "orders")) == appended


async def test_a_ledger_that_fills_before_its_time_is_replaced_when_it_is_due(tmp_path: Path) -> None:
    """The least interval between rotations has passed, and no append comes to notice it."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri, SMALL) as client:
        writer = await client.open_writer("orders", create=True)
        message_ids = await writer.append_many([b"x" * 1000] * 400)
        await until(lambda: writer.record.ledgers[-1].ledger_id > message_ids[0].ledger_id)


async def test_an_empty_ledger_is_never_rotated(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        current = writer.record.ledgers[-1].ledger_id
        assert await writer.rotate() == current


async def test_an_idle_ledger_is_sealed(tmp_path: Path) -> None:
    config = replace(QUICK, rotation=RotationLimits(idle_s=0.2, interval_min_s=0.05))
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri, config) as client:
        writer = await client.open_writer("orders", create=True)
        first = (await writer.append(b"one")).ledger_id
        await until(lambda: writer.record.ledgers[-1].ledger_id > first)
        assert (await writer.append(b"two")).ledger_id > first


async def test_a_metadata_store_that_is_away_stops_no_append(tmp_path: Path) -> None:
    """Rotation is best effort; it is made up for once the store is back (docs/log-semantics.md#rule-17)."""
    async with forked_cluster(tmp_path) as cluster:
        store = UnsureStore(await open_store(cluster.uri))
        async with LogClient(store, config=QUICK) as client:
            await client.start()
            writer = await client.open_writer("orders", create=True)
            producer = Producer(writer, "p")
            await producer.reached(100)
            first = writer.record.ledgers[-1].ledger_id
            store.away = True
            with pytest.raises(MetadataUnavailableError):
                await writer.rotate()
            await producer.more(500)
            assert writer.record.ledgers[-1].ledger_id == first
            store.away = False
            await until(lambda: writer.record.ledgers[-1].ledger_id > first)
            await producer.more(100)
            await producer.stop()
            assert len(producer.acked) == producer.sent
            producer.check(await read_all(client, "orders"))


@pytest.mark.parametrize("fault", [APPLIED, DROPPED, LATE])
async def test_rotations_whose_answers_are_lost_go_on(tmp_path: Path, fault: str) -> None:
    """At the writer (docs/log-semantics.md#rule-10)."""
    async with forked_cluster(tmp_path) as cluster:
        store = UnsureStore(await open_store(cluster.uri))
        async with LogClient(store, config=QUICK) as client:
            await client.start()
            writer = await client.open_writer("orders", create=True)
            producer = Producer(writer, "p")
            for _ in range(4):
                await producer.more(50)
                store.faults = [fault]
                await writer.rotate()
            await producer.stop()
            assert len(producer.acked) == producer.sent
            producer.check(await read_all(client, "orders"))
            assert len((await client.describe("orders")).record.ledgers) == 5


async def test_a_bookie_killed_mid_stream_is_not_noticed_by_appends(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        producer = Producer(await client.open_writer("orders", create=True), "p")
        await producer.reached(500)
        await kill(cluster.bookies[1])
        await producer.more(500)
        await cluster.restart(1)
        await producer.more(500)
        await producer.stop()
        assert len(producer.acked) == producer.sent
        producer.check(await read_all(client, "orders"))


async def test_a_ledger_that_lost_its_quorum_is_settled_and_replaced(tmp_path: Path) -> None:
    """Appends wait while two of three bookies are away, then go on; none is lost or doubled.

    Source: docs/log-semantics.md#rule-19.
    """
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        producer = Producer(writer, "p")
        await producer.reached(500)
        first = writer.record.ledgers[-1].ledger_id
        await kill(cluster.bookies[0])
        await kill(cluster.bookies[1])
        await until(lambda: writer.position is None, 30)
        await cluster.restart(0)
        await producer.more(500, 60)
        assert writer.record.ledgers[-1].ledger_id > first
        await producer.stop()
        assert len(producer.acked) == producer.sent
        producer.check(await read_all(client, "orders"))


async def test_appends_that_wait_too_long_for_a_ledger_are_given_up(tmp_path: Path) -> None:
    """The hard limit: in flight is indeterminate, held is absent; a new writer finds out which.

    Source: docs/log-semantics.md#rule-19.
    """
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, hold_limit_s=1.0) as client,
    ):
        writer = await client.open_writer("orders", create=True)
        producer = Producer(writer, "p")
        await producer.reached(300)
        await kill(cluster.bookies[0])
        await kill(cluster.bookies[1])
        assert isinstance(await producer.died(), AppendAbortedError)
        assert not writer.active
        await cluster.restart(0)
        await cluster.restart(1)
        await client.open_writer("orders", create=True)
        producer.check(await read_all(client, "orders"))


async def test_appends_after_a_full_ledger_that_cannot_be_replaced_are_given_up(tmp_path: Path) -> None:
    """One of three bookies is dead and the policy wants three; the ledger works until it is full.

    Source: docs/log-semantics.md#rule-17, #rule-19b.
    """
    limits = RotationLimits(bytes_max=20_000, interval_min_s=0.05)
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, hold_limit_s=2.0, degraded=DegradedPolicy.REFUSE, rotation=limits) as client,
    ):
        writer = await client.open_writer("orders", create=True)
        producer = Producer(writer, "p")
        await producer.reached(50)
        await kill(cluster.bookies[0])
        error = await producer.died()
        assert isinstance(error, AppendAbortedError)
        assert re.search(r"within 2 s .*needs 3 writable bookies and 2 are registered", str(error)), error
        await cluster.restart(0)
        await client.open_writer("orders", create=True)
        producer.check(await read_all(client, "orders"))


async def test_a_repair_tool_that_fences_the_ledger_does_not_depose_the_owner(tmp_path: Path) -> None:
    """FENCED alone proves nothing (docs/log-semantics.md#rule-24b)."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as client,
        client_of(cluster.uri) as tool,
    ):
        writer = await client.open_writer("orders", create=True)
        producer = Producer(writer, "p")
        for _ in range(3):
            await producer.more(300)
            current = writer.record.ledgers[-1].ledger_id
            handle = await tool.ledgers.open_with_recovery(current)
            await handle.close()
            await until(lambda: writer.record.ledgers[-1].ledger_id > current)  # noqa: B023 - awaited here
        await producer.more(300)
        await producer.stop()
        assert len(producer.acked) == producer.sent
        assert writer.epoch == 1
        producer.check(await read_all(client, "orders"))


async def test_a_concurrent_shrink_only_makes_the_owners_next_rotation_rebase(tmp_path: Path) -> None:
    """Source: docs/log-semantics.md#rule-9."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        for number in range(6):
            message_id = await writer.append(b"%d" % number)
            await asyncio.gather(writer.rotate(), client.shrink("orders", message_id))
        assert writer.active
        assert [message.payload for message in await read_all(client, "orders")] == [b"5"]


async def test_cancelled_appends_never_disturb_the_others(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        futures = []
        for number in range(400):
            future = await writer.submit(b"%d" % number)
            futures.append(future)
            if number % 3 == 0:
                future.cancel()
        kept = [future for future in futures if not future.cancelled()]
        ids = await asyncio.gather(*kept)
        assert ids == sorted(ids)
        tasks = [asyncio.create_task(writer.append(b"t%d" % number)) for number in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        last = await writer.append(b"last")
        messages = await read_all(client, "orders")
        assert messages[-1].id == last
        payloads = {message.payload for message in messages}
        expected = {b"%d" % number for number, future in enumerate(futures) if not future.cancelled()}
        assert payloads >= expected | {b"t%d" % number for number in range(1, 100, 2)}
        assert not payloads & {b"%d" % number for number in range(0, 400, 3)}


async def test_a_conditional_append_needs_the_tail_it_expects(tmp_path: Path) -> None:
    """Decided by the one writer, across rotations and takeovers (docs/log-semantics.md#rule-12)."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        first = await writer.append(b"one", expect_tail=NO_MESSAGE)
        for wrong in (NO_MESSAGE, MessageId(first.ledger_id, first.entry_id, 1)):
            with pytest.raises(AppendRejectedError):
                await writer.append(b"no", expect_tail=wrong)
        second = await writer.append(b"two", expect_tail=first)
        await writer.rotate()
        third = await writer.append(b"three", expect_tail=second)
        again = await client.open_writer("orders", create=True)
        with pytest.raises(AppendRejectedError) as caught:
            await again.append(b"no", expect_tail=second)
        assert caught.value.tail == third
        await again.append(b"four", expect_tail=third)
        payloads = [message.payload for message in await read_all(client, "orders")]
        assert payloads == [b"one", b"two", b"three", b"four"]


async def test_close_settles_everything_and_abort_reports_what_is_open(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        futures = [await writer.submit(b"%d" % number) for number in range(100)]
        await writer.close()
        assert all(future.done() for future in futures)
        assert len([future.result() for future in futures]) == 100
        with pytest.raises(AppendAbortedError):
            await writer.append(b"late")
        again = await client.open_writer("orders", create=True)
        futures = [await again.submit(b"%d" % number) for number in range(100)]
        await again.start_flush()
        await asyncio.sleep(0)
        again.abort()
        errors: list[LogStoreError | None] = []
        for future in futures:
            error = future.exception()
            assert error is None or isinstance(error, AppendIndeterminateError | AppendAbortedError)
            errors.append(error)
        assert any(error is not None for error in errors)
