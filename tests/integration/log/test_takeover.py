"""Taking a log over from writers that live, die, race or sleep; on real bookies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dlog.client import LogClient
from dlog.core.degraded import DegradedPolicy, wanted_quorum
from dlog.errors import (
    AppendIndeterminateError,
    LogNotFoundError,
    LogSealedError,
    TakeoverContendedError,
    TakeoverLostError,
    WriterDeposedError,
)
from dlog.model import LogState, MessageId
from dlog.write.writer import LogWriter
from ledger.environment import SystemEnvironment
from ledger.errors import NotEnoughBookiesError
from ledger.metadata.drivers import open_store
from ledger.model import QuorumSizes
from tests.helpers.log.producer import QUICK, Producer, client_of, kill, read_all, until
from tests.helpers.log.unsure_store import UnsureStore
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def test_a_takeover_fences_the_writer_that_is_still_alive(tmp_path: Path) -> None:
    """The old writer is told who has the log now; what it was told is exactly what a reader finds."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as one,
        client_of(cluster.uri) as two,
    ):
        old = await one.open_writer("orders", create=True)
        first = Producer(old, "old")
        await first.reached(2000)
        new = await two.open_writer("orders", create=True)
        assert new.epoch == old.epoch + 1
        second = Producer(new, "new")
        error = await first.died()
        assert isinstance(error, WriterDeposedError)
        assert (error.epoch, error.owner) == (new.epoch, new.owner)
        await second.reached(500)
        await second.stop()
        messages = await read_all(two, "orders")
        first.check(messages)
        second.check(messages)
        assert len(first.acked) >= 2000


async def test_an_idle_deposed_writer_learns_it_by_itself(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as one,
        client_of(cluster.uri) as two,
    ):
        old = await one.open_writer("orders", create=True)
        await old.append(b"one")
        new = await two.open_writer("orders", create=True)
        await until(lambda: not old.active)
        with pytest.raises(WriterDeposedError) as caught:
            await old.append(b"two")
        assert caught.value.owner == new.owner
        await new.append(b"three")
        assert [message.payload for message in await read_all(two, "orders")] == [b"one", b"three"]


async def test_a_takeover_at_any_moment_of_a_rotation_loses_nothing(tmp_path: Path) -> None:
    """With the tail of two ledgers unsealed, both are fenced (docs/log-semantics.md#rule-20)."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        producers = []
        writer = await client.open_writer("orders", create=True)
        for turn in range(12):
            producer = Producer(writer, f"turn{turn}")
            producers.append(producer)
            await producer.reached(60)
            rotating = asyncio.ensure_future(writer.rotate())
            await asyncio.sleep(0.0005 * turn)
            writer = await client.open_writer("orders", create=True)
            await producer.died()
            await asyncio.gather(rotating, return_exceptions=True)
        await writer.append(b"last")
        messages = await read_all(client, "orders")
        for producer in producers:
            producer.check(messages)


async def test_of_racing_candidates_one_can_append_in_the_end(tmp_path: Path) -> None:
    """At every round (docs/log-semantics.md#i16)."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        for turn in range(6):
            openings = [client.open_writer("orders", create=True) for _ in range(5)]
            outcomes = await asyncio.gather(*openings, return_exceptions=True)
            writers = [one for one in outcomes if isinstance(one, LogWriter)]
            for one in outcomes:
                if not isinstance(one, LogWriter):
                    assert isinstance(one, TakeoverLostError | TakeoverContendedError), one
            appends = [one.append(f"{turn}".encode()) for one in writers]
            results = await asyncio.gather(*appends, return_exceptions=True)
            done = [one for one in results if not isinstance(one, BaseException)]
            for one in results:
                if isinstance(one, BaseException):
                    assert isinstance(one, WriterDeposedError | AppendIndeterminateError), one
            assert len(done) >= 1
            await until(lambda: sum(one.active for one in writers) == 1)  # noqa: B023 - awaited in the loop
        messages = await read_all(client, "orders")
        assert {message.payload for message in messages} >= {f"{turn}".encode() for turn in range(6)}
        info = await client.describe("orders")
        unsealed = [one for one in info.record.ledgers if one.seal is None]
        assert len(unsealed) == 1


async def test_a_takeover_with_one_bookie_dead_is_degraded_until_the_bookie_returns(tmp_path: Path) -> None:
    """Two bookies are enough for the ack quorum; a third one brings the full ensemble back.

    Source: docs/log-semantics.md#rule-19b.
    """
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        for number in range(20):
            await writer.append(b"%d" % number)
        writer.abort()
        await kill(cluster.bookies[0])
        await until(lambda: len(client.ledgers.bookies().writable) == 2)
        again = await client.open_writer("orders", create=True)
        assert again.degraded
        ledger_id = again.record.ledgers[-1].ledger_id
        metadata = (await client.ledgers.store.read_ledger(ledger_id)).value
        assert metadata.quorum == QuorumSizes(ensemble=2, write=2, ack=2)
        assert wanted_quorum(metadata) == QuorumSizes()
        await again.append(b"degraded")
        await cluster.restart(0)
        await until(lambda: not again.degraded)
        await again.append(b"full")
        metadata = (await client.ledgers.store.read_ledger(again.record.ledgers[-1].ledger_id)).value
        assert metadata.quorum == QuorumSizes() and wanted_quorum(metadata) is None
        payloads = [message.payload for message in await read_all(client, "orders")]
        assert payloads == [b"%d" % number for number in range(20)] + [b"degraded", b"full"]


async def test_a_hung_bookie_does_not_block_a_takeover(tmp_path: Path) -> None:
    """With three copies and an ack quorum of two, two answers fence the log (docs/log-semantics.md#rule-21)."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as one,
        client_of(cluster.uri) as two,
    ):
        producer = Producer(await one.open_writer("orders", create=True), "old")
        await producer.reached(500)
        cluster.bookies[2].pause()
        try:
            writer = await two.open_writer("orders", create=True)
            await writer.append(b"new")
            assert isinstance(await producer.died(), WriterDeposedError)
        finally:
            cluster.bookies[2].resume()
        producer.check(await read_all(two, "orders"))


class Sleepy(SystemEnvironment):
    """A machine that can be suspended for as long as a test likes."""

    slept_s = 0.0

    def boot_s(self) -> float:
        return super().boot_s() + self.slept_s


async def test_a_writer_that_slept_delivers_no_ack_before_it_has_confirmed_its_epoch(tmp_path: Path) -> None:
    """Its ledger may be deleted by now, on bookies that forget deletions (docs/log-semantics.md#rule-25)."""
    async with forked_cluster(tmp_path) as cluster:
        store, machine = UnsureStore(await open_store(cluster.uri)), Sleepy()
        store.forgetful = True
        config = replace(QUICK, deletion_grace_s=1000.0)
        async with LogClient(store, config=config, environment=machine) as client:
            await client.start()
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            machine.slept_s = 499.0
            store.away = True
            await writer.append(b"two")
            machine.slept_s = 501.0
            append = asyncio.ensure_future(writer.append(b"three"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(append), 0.3)
            store.away = False
            assert (await append).entry_id == 2


async def test_a_writer_that_slept_through_a_takeover_acks_nothing(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as other:
        store, machine = UnsureStore(await open_store(cluster.uri)), Sleepy()
        store.forgetful = True
        config = replace(QUICK, deletion_grace_s=1000.0)
        async with LogClient(store, config=config, environment=machine) as client:
            await client.start()
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"one")
            store.away = True
            machine.slept_s = 501.0
            append = asyncio.ensure_future(writer.append(b"two"))
            await until(lambda: writer.position == MessageId(writer.record.ledgers[-1].ledger_id, 2, 0))
            await other.open_writer("orders", create=True)
            store.away = False
            with pytest.raises((AppendIndeterminateError, WriterDeposedError)):
                await append


async def test_a_log_that_refuses_degradation_reports_how_many_bookies_are_missing(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, degraded=DegradedPolicy.REFUSE) as client,
    ):
        await kill(cluster.bookies[0])
        await until(lambda: len(client.ledgers.bookies().writable) == 2)
        with pytest.raises(NotEnoughBookiesError):
            await client.open_writer("orders", create=True)


async def test_without_any_bookie_the_error_names_the_way_out(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=0) as cluster, client_of(cluster.uri) as client:
        with pytest.raises(NotEnoughBookiesError, match="dlog standalone"):
            await client.open_writer("orders", create=True)


async def test_a_writer_that_is_not_asked_to_create_finds_no_log(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=0) as cluster, client_of(cluster.uri) as client:
        with pytest.raises(LogNotFoundError):
            await client.open_writer("orders")


async def test_a_sealed_log_takes_no_writer_and_its_old_writer_is_deposed(tmp_path: Path) -> None:
    """Source: docs/log-semantics.md#rule-34b."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        producer = Producer(await client.open_writer("orders", create=True), "p")
        await producer.reached(300)
        record = await client.seal("orders")
        assert record.state is LogState.SEALED
        assert isinstance(await producer.died(), WriterDeposedError)
        with pytest.raises(LogSealedError):
            await client.open_writer("orders", create=True)
        assert (await client.seal("orders")) == record
        producer.check(await read_all(client, "orders"))
