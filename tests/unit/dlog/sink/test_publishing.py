"""A sink's batch from takeover to publication, on a simulated cluster: once, whole, and by the owner only.

Source: docs/log-semantics.md#rule-37.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core.batching import BatchLimits
from dlog.core.degraded import wanted_quorum
from dlog.core.metadata_update import NotOurs
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.core.rotation_triggers import RotationLimits
from dlog.errors import (
    AppendIndeterminateError,
    LogNotFoundError,
    LogSealedError,
    MessageTooLargeError,
    StagingBarredError,
    TooManySinksError,
    WriterDeposedError,
)
from dlog.format.log_metadata import SINKS_MAX
from dlog.inspection.ledgers import listed_ledgers
from dlog.model import LogMetadata, Retention, SinkMark
from dlog.sink.opening import open_epoch
from dlog.sink.publishing import discard, publish, tidy
from dlog.sink.staging import StagingWriter, body_bytes_max
from dlog.testing import SimulatedCluster, simulate
from ledger.config import LedgerClientConfig
from ledger.errors import LogStoreError, MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.model import LedgerId, QuorumSizes, Versioned
from tests.helpers.log.scripted_log import payloads
from tests.helpers.log.sink import encoded, staged
from tests.helpers.log.unsure_store import APPLIED, DROPPED, LATE, UnsureStore

LOG = "orders"
ZERO, ONE = SinkBatch(writer_id="query", number=0), SinkBatch(writer_id="query", number=1)
Scene = Callable[[SimulatedCluster, LogClient], Awaitable[None]]


def play(scene: Scene, config: LogConfig | None = None) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=config) as client:
            await client.create(LOG)
            await scene(cluster, client)

    simulate(main)


async def read(client: LogClient) -> list[bytes | None]:
    return await payloads(client, LOG)


async def kept(client: LogClient) -> set[LedgerId]:
    return {one async for one in client.ledgers.store.ledger_ids()}


def ids_of(ledgers: tuple[StagedLedger, ...]) -> list[LedgerId]:
    return [one.ledger_id for one in ledgers]


async def refused(client: LogClient, work: Awaitable[object], kind: type[LogStoreError]) -> LogStoreError:
    with pytest.raises(kind) as caught:
        await work
    return caught.value


def test_a_batch_is_published_whole_and_once() -> None:
    """Two tasks write at the same time; no reader sees anything before the driver publishes. A replay is deleted."""

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        async with client.open_writer(LOG) as writer:
            await writer.append(b"before")
        epoch = await open_epoch(client, LOG)
        first, second = await asyncio.gather(
            staged(client, epoch, ZERO, [b"1", b"2"], [b"3"]), staged(client, epoch, ZERO, [b"4"])
        )
        assert await read(client) == [b"before"]
        assert await publish(client, epoch, ZERO, [*first, *second])
        rows = await read(client)
        assert rows[0] == b"before"
        assert sorted(rows[1:]) == [b"1", b"2", b"3", b"4"]
        assert [row for row in rows if row in (b"1", b"2", b"3")] == [b"1", b"2", b"3"], "a task's order"
        again = await open_epoch(client, LOG)
        assert again.has("query", 0)
        assert not again.has("query", 1)
        replay = await staged(client, again, ZERO, [b"1", b"2", b"3", b"4"])
        assert not await publish(client, again, ZERO, replay)
        assert await read(client) == rows
        assert not set(ids_of(replay)) & await kept(client)
        assert await publish(client, again, ONE, await staged(client, again, ONE, [b"5"]))
        assert (await read(client))[5:] == [b"5"]
        facts = [
            (one.seal.message_count, one.seal.last_entry)
            for one in await client.list_ledgers(LOG)
            if one.seal
        ]
        assert sorted(facts) == [(1, 0), (1, 0), (1, 0), (3, 1)]

    play(scene)


def test_a_zombie_is_refused_and_named_the_owner() -> None:
    """A driver sleeps after its tasks have written; another one takes the log over and runs the same batch."""

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        zombie = await open_epoch(client, LOG)
        late = await staged(client, zombie, ZERO, [b"late"])
        epoch = await open_epoch(client, LOG)
        error = await refused(client, publish(client, zombie, ZERO, late), WriterDeposedError)
        assert error.facts["owner"] == epoch.owner
        assert await publish(client, epoch, ZERO, await staged(client, epoch, ZERO, [b"once"]))
        assert not await publish(client, zombie, ZERO, late), "the batch is in the log"
        assert await read(client) == [b"once"]
        assert not set(ids_of(late)) & await kept(client)

    play(scene)


def test_a_writer_and_a_sink_depose_each_other() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        writer = await client.open_writer(LOG)
        await writer.append(b"1")
        epoch = await open_epoch(client, LOG)
        await refused(client, writer.append(b"in flight when it learns of it"), AppendIndeterminateError)
        error = await refused(client, writer.append(b"lost"), WriterDeposedError)
        assert error.facts["owner"] == epoch.owner
        batch = await staged(client, epoch, ZERO, [b"2"])
        second = await client.open_writer(LOG)
        error = await refused(client, publish(client, epoch, ZERO, batch), WriterDeposedError)
        assert error.facts["owner"] == second.owner
        assert await discard(client, epoch.ref, ids_of(batch)) == ids_of(batch)
        await second.append(b"3")
        assert await read(client) == [b"1", b"3"]
        writer.abort()
        await second.close()

    play(scene)


@pytest.mark.parametrize("batch", [ZERO, None])
def test_a_lost_answer_is_decided_by_reading_again(batch: SinkBatch | None) -> None:
    """Also if another client has changed the record since, and however often the change is sent."""

    async def main(cluster: SimulatedCluster) -> None:
        store = UnsureStore(cluster.store())
        client = LogClient(store, environment=cluster.environment())  # type: ignore[arg-type]  # delegates
        await client.start()
        await client.create(LOG)
        for number, faults in enumerate([[APPLIED], [DROPPED], [LATE, None], [DROPPED, APPLIED]]):
            epoch = await open_epoch(client, LOG)
            named = None if batch is None else replace(batch, number=number)
            ledgers = await staged(client, epoch, named, [b"%d" % number])
            store.faults = list(faults)
            assert await publish(client, epoch, named, ledgers)
            assert await publish(client, epoch, named, ledgers), "again, with the same ledgers"
            assert await discard(client, epoch.ref, ids_of(ledgers)) == [], "an abort after a commit"
        assert await read(client) == [b"0", b"1", b"2", b"3"]
        await client.close()

    simulate(main)


@contextmanager
def overtaken_unnoticed(client: LogClient, then: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """A change of the log's record is applied, its answer lost, and other clients do `then` before a fresh read."""
    change = client.logs.compare_and_set

    async def lost(*args: Any, **options: Any) -> NotOurs:
        await change(*args, **options)
        client.logs.compare_and_set = change  # type: ignore[method-assign]
        await then()
        return NotOurs(None, definite=False)

    client.logs.compare_and_set = lost  # type: ignore[method-assign]
    yield
    client.logs.compare_and_set = change  # type: ignore[method-assign]


@pytest.mark.parametrize("batch", [None, ZERO])
def test_a_store_that_stays_away_after_a_lost_answer_leaves_the_outcome_unknown(
    batch: SinkBatch | None,
) -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        ledgers = await staged(client, epoch, batch, [b"1"])
        look = client.logs.read

        async def away(*_: object, **__: object) -> Versioned[LogMetadata]:
            raise MetadataUnavailableError("the store is away")

        async def go_away() -> None:
            client.logs.read = away  # type: ignore[method-assign]

        with overtaken_unnoticed(client, go_away):
            await refused(client, publish(client, epoch, batch, ledgers), MetadataOutcomeUnknownError)
        client.logs.read = look  # type: ignore[method-assign]
        assert await publish(client, epoch, batch, ledgers), "repeating it gives its outcome"
        assert await read(client) == [b"1"]

    play(scene)


@pytest.mark.parametrize("batch", [None, ZERO])
def test_a_batch_whose_answer_was_lost_and_that_is_trimmed_since_is_not_called_unpublished(
    batch: SinkBatch | None,
) -> None:
    """Its number, if it has one, shows that the log had it; without one nothing does."""

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        ledgers = await staged(client, epoch, batch, [b"1"])

        async def take_over_and_trim() -> None:
            async with client.open_writer(LOG) as writer:
                after = await writer.append(b"after")
            await client.shrink(LOG, after)
            await client.collect(LOG)

        with overtaken_unnoticed(client, take_over_and_trim):
            if batch is None:
                await refused(client, publish(client, epoch, batch, ledgers), MetadataOutcomeUnknownError)
            else:
                assert not await publish(client, epoch, batch, ledgers)
        assert await read(client) == [b"after"]

    play(scene)


def test_an_abort_stops_a_change_that_is_still_under_way() -> None:
    """The driver gives up waiting for the answer to its change; the abort makes that change come too late."""

    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        ledgers = await staged(client, epoch, ZERO, [b"1"])
        change = client.logs.compare_and_set
        sent: list[object] = []

        async def lost(*args: object, **options: object) -> object:
            sent.append((args, options))
            raise MetadataOutcomeUnknownError("the answer was lost")

        client.logs.compare_and_set = lost  # type: ignore[method-assign,assignment]
        await refused(client, publish(client, epoch, ZERO, ledgers), MetadataOutcomeUnknownError)
        client.logs.compare_and_set = change  # type: ignore[method-assign]
        assert await discard(client, epoch.ref, ids_of(ledgers)) == ids_of(ledgers)
        [(args, options)] = sent  # type: ignore[misc]
        await client.logs.compare_and_set(*args, **options)  # now it arrives
        assert (await client.describe(LOG)).record.ledger_ids == ()
        await refused(client, publish(client, epoch, ZERO, ledgers), StagingBarredError)
        assert await read(client) == []

    play(scene)


def test_a_sweep_that_bars_a_ledger_fails_the_whole_batch() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        first = await staged(client, epoch, ZERO, [b"1"])
        second = await staged(client, epoch, ZERO, [b"2"])
        assert await client.admin.sweep(age_s=0, staging_age_s=7 * 86_400) == []
        assert await client.admin.sweep(age_s=-1, staging_age_s=-1) == [*ids_of(first), *ids_of(second)]
        await refused(client, publish(client, epoch, ZERO, [*first, *second]), StagingBarredError)
        again = await staged(client, epoch, ZERO, [b"1"], [b"2"])
        assert await publish(client, epoch, ZERO, again)
        assert await read(client) == [b"1", b"2"]

    play(scene)


@pytest.mark.parametrize("end", ["finish", "replaced bookie", "next append"])
def test_a_task_whose_ledger_is_swept_meanwhile_must_write_it_again(end: str) -> None:
    """Another attempt has published the batch."""

    async def scene(cluster: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        task = StagingWriter(epoch, ZERO, client.ledgers, client.config)
        await task.append(encoded(b"1"), 1)
        assert await publish(client, epoch, ZERO, await staged(client, epoch, ZERO, [b"1"]))
        [swept] = await client.admin.sweep(age_s=-1)
        if end == "replaced bookie":
            cluster.kill_bookie(0)
            await task.append(encoded(b"2"), 1)
        if end == "next append":
            cluster.kill_bookie(0)
            cluster.kill_bookie(1)
            await task.append(encoded(b"2"), 1)
            await asyncio.sleep(60)  # its handle looks whether the ledger is there
            error = await refused(client, task.append(encoded(b"3"), 1), StagingBarredError)
        else:
            error = await refused(client, task.finish(), StagingBarredError)
        assert str(swept) in str(error)
        await task.discard()
        assert await read(client) == [b"1"]

    play(scene)


def test_an_entry_has_the_limit_of_the_clients_ledgers() -> None:
    config = LogConfig(
        ledger=LedgerClientConfig(entry_bytes_max=4096), batching=BatchLimits(entry_bytes_max=4096)
    )

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        writer = StagingWriter(epoch, None, client.ledgers, client.config)
        with pytest.raises(MessageTooLargeError):
            await writer.append(bytes(body_bytes_max(epoch, config) + 1), 1)
        await writer.append(encoded(bytes(body_bytes_max(epoch, config) - 20)), 1)
        assert await publish(client, epoch, ZERO, list(await writer.finish()))

    play(scene, config)


def test_a_ledger_with_too_few_bookies_keeps_what_was_configured() -> None:
    """Three bookies are there (docs/log-semantics.md#rule-19b)."""
    config = LogConfig(quorum=QuorumSizes(ensemble=5, write=5, ack=3))

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        writer = StagingWriter(epoch, None, client.ledgers, client.config)
        await writer.append(encoded(b"1"), 1)
        [ledger] = await writer.finish()
        metadata = (await client.ledgers.store.read_ledger(ledger.ledger_id)).value
        assert metadata.quorum == QuorumSizes(ensemble=3, write=3, ack=3)
        assert wanted_quorum(metadata) == config.quorum

    play(scene, config)


def test_a_task_that_fails_leaves_nothing() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        writer = StagingWriter(epoch, None, client.ledgers, client.config)
        for _entry in range(3):
            await writer.append(encoded(b"x" * 1000), 1)
        await writer.discard()
        assert await kept(client) == set()
        assert await StagingWriter(epoch, None, client.ledgers, client.config).finish() == ()
        assert await publish(client, epoch, ZERO, [])
        assert (await client.describe(LOG)).record.sinks == ()

    play(scene, LogConfig(rotation=RotationLimits(bytes_max=1500)))


def test_a_task_with_much_to_write_fills_several_ledgers_in_order() -> None:
    """Two hundred of them: the list goes into pages, which show that the batch was published, too."""

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        ledgers = await staged(client, epoch, None, *([b"%d" % n] for n in range(200)))
        assert len(ledgers) == 200
        assert await publish(client, epoch, None, ledgers)
        assert await read(client) == [b"%d" % n for n in range(200)]
        assert (await client.describe(LOG)).record.pages
        early = ledgers[:5]
        async with client.open_writer(LOG):
            assert await publish(client, epoch, None, early), "deposed since, and listed in a page"
            assert await discard(client, epoch.ref, ids_of(ledgers)) == []
        assert await read(client) == [b"%d" % n for n in range(200)]

    play(scene, LogConfig(rotation=RotationLimits(entries_max=1)))


def test_append_times_never_fall_and_messages_are_counted() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        async with client.open_writer(LOG) as writer:
            await writer.append(b"1")
        last = (await client.list_ledgers(LOG))[-1].seal
        assert last is not None
        epoch = await open_epoch(client, LOG)
        later = replace(epoch, append_time_us=epoch.append_time_us + 3_600_000_000)
        assert await publish(client, later, None, await staged(client, later, None, [b"2", b"3"], [b"4"]))
        following = await open_epoch(client, LOG)
        assert following.append_time_us == later.append_time_us, "the clock is an hour behind"
        async with client.open_writer(LOG) as writer:
            await writer.append(b"5")
        messages = [message async for message in client.reader(LOG, until="latest")]
        times = [message.append_time_us for message in messages]
        assert times == sorted(times)
        assert times[1:4] == [later.append_time_us] * 3
        assert (await client.overview(LOG)).totals.messages == 5

    play(scene)


@pytest.mark.parametrize("trimmed", [False, True])
def test_producers_survive_the_batches_of_a_sink(trimmed: bool) -> None:
    """Each ledger of a sink says what they have appended: the one that is the newest, with all before it trimmed.

    Source: docs/log-semantics.md#rule-36.
    """

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        async with client.open_writer(LOG) as writer:
            await (await writer.producer("billing")).append(b"1", sequence=1)
        for number in range(2):
            batch = replace(ZERO, number=number)
            epoch = await open_epoch(client, LOG)
            first = await staged(client, epoch, batch, [b"a"], [b"b"])
            second = await staged(client, epoch, batch, [b"c"])
            assert await publish(client, epoch, batch, [*first, *second])
        if trimmed:
            await client.set_retention(LOG, Retention(max_bytes=1))
            await client.apply_retention(LOG)
            assert len(await listed_ledgers(client, LOG)) == 1
        async with client.open_writer(LOG) as writer:
            producer = await writer.producer("billing")
            assert (await producer.append(b"1", sequence=1)).new == 0
            assert (await producer.append(b"2", sequence=2)).new == 1
        rows = await read(client)
        assert rows.count(b"1") == (not trimmed)
        assert rows.count(b"2") == 1
        epoch = await open_epoch(client, LOG)
        assert epoch.producers is not None
        assert epoch.producers.snapshot is not None

    play(scene)


def test_the_owner_of_a_log_trims_it_after_a_batch() -> None:
    """As a writer does after a rotation (docs/log-semantics.md#rule-34)."""

    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        await client.set_retention(LOG, Retention(max_messages=1))
        for number in range(3):
            epoch = await open_epoch(client, LOG)
            assert await publish(client, epoch, None, await staged(client, epoch, None, [b"%d" % number]))
            await tidy(client, epoch.ref)
        assert await read(client) == [b"2"]
        assert len(await kept(client)) == 1, "what a sink wrote is deleted as any other ledger"

    play(scene)


def test_what_ended_takes_no_batch() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        batch = await staged(client, epoch, ZERO, [b"1"])
        await client.seal(LOG)
        error = await refused(client, publish(client, epoch, ZERO, batch), WriterDeposedError)
        assert f"log default/{LOG} was sealed by" in str(error)
        assert "stop the other writer" not in str(error)
        await refused(client, open_epoch(client, LOG), LogSealedError)
        await client.delete(LOG)
        error = await refused(client, publish(client, epoch, ZERO, batch), WriterDeposedError)
        assert "create it again or use another log" in str(error)
        await refused(client, open_epoch(client, LOG), LogNotFoundError)
        assert await discard(client, epoch.ref, ids_of(batch)) == []
        assert await client.admin.sweep(age_s=-1) == ids_of(batch)

    play(scene)


def test_a_log_remembers_so_many_sinks() -> None:
    async def scene(_: SimulatedCluster, client: LogClient) -> None:
        epoch = await open_epoch(client, LOG)
        read = await client.logs.read(epoch.ref)
        now_us = client.ledgers.environment.wall_us()
        marks = tuple(SinkMark(writer_id=f"s{n}", batch=1, time_us=now_us) for n in range(SINKS_MAX))
        await client.logs.compare_and_set(epoch.ref, replace(read.value, sinks=marks, nonce=5), read.version)
        batch = await staged(client, epoch, ZERO, [b"1"])
        error = await refused(client, publish(client, epoch, ZERO, batch), TooManySinksError)
        assert "or, with a number above its last one, the writer id of an earlier sink" in str(error)

    play(scene)
