"""Producers: each sequence is in the log at most once, across takeovers, rotations and trims.

Source: docs/log-semantics.md#rule-36.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from dlog import writer_opening
from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.errors import (
    AppendAbortedError,
    AppendIndeterminateError,
    AppendRejectedError,
    DataLossError,
    MessageTooLargeError,
    TooManyProducersError,
    WriterDeposedError,
)
from dlog.format.entry import ELSEWHERE, decode_envelope
from dlog.format.producer_snapshot import PRODUCER_BYTES, LastMessage, decode_snapshot, producer_id
from dlog.inspection.ledgers import listed_ledgers
from dlog.model import Appended, MessageId
from dlog.testing import SimulatedCluster, simulate
from dlog.write import producer_registry
from dlog.write.active_ledger import ActiveLedger
from dlog.write.pending_entry import PendingEntry
from dlog.write.producer import LogProducer
from dlog.write.writer import LogWriter
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError, EntryTooLargeError, InvalidNameError
from ledger.model import LedgerId
from ledger.reading.read_handle import ReadHandle
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import QUICK, ScriptedLog, messages_before, payloads, scripted_log
from tests.helpers.log.scripted_writer import added, current, fence

LOG = "orders"
FILLING = bytes(2500)
Scene = Callable[[SimulatedCluster, LogClient, LogWriter], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            await scene(cluster, client, writer)
            writer.abort()

    simulate(main)


async def read(client: LogClient) -> list[bytes | None]:
    return await payloads(client, LOG)


def test_a_log_without_producers_is_not_read_for_them() -> None:
    """The recovery of its last ledger has seen that its last entry names no snapshot."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        await writer.append(b"a")
        async with await cluster.client() as other:
            opened: list[LedgerId] = []
            open_ledger = other.ledgers.open

            async def counted(ledger_id: LedgerId, password: bytes = b"") -> ReadHandle:
                opened.append(ledger_id)
                return await open_ledger(ledger_id, password)

            other.ledgers.open = counted  # type: ignore[method-assign]
            async with other.open_writer(LOG) as second:
                assert opened == []
                await (await second.producer("billing")).append(b"b", sequence=1)
            async with other.open_writer(LOG) as third:
                assert opened == [2]
                assert (await third.producer("billing")).last_sequence == 1

    play(scene)


# ---- duplicates


def test_a_duplicate_is_answered_with_the_id_of_the_original() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("billing")
        assert (producer.name, producer.last_sequence) == ("billing", None)
        first = await producer.append(b"a", sequence=7)
        assert first == Appended(7, MessageId(1, 0, 0), 1) and list(first.new_ids) == [MessageId(1, 0, 0)]
        assert producer.last_sequence == 7
        again = await producer.append(b"a", sequence=7)
        assert again == Appended(7, MessageId(1, 0, 0), 0) and list(again.new_ids) == []
        assert await producer.append(b"b", b"key", [(b"h", b"1")], sequence=8) == Appended(
            8, MessageId(1, 1, 0), 1
        )
        assert await producer.append(b"a", sequence=7) == Appended(7, None, 0)
        assert await (await writer.producer("other")).append(b"c", sequence=1) == Appended(
            1, MessageId(1, 2, 0), 1
        )
        assert await read(client) == [b"a", b"b", b"c"]

    play(scene)


def test_of_a_batch_that_overlaps_only_the_new_messages_are_appended() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("billing")
        assert await producer.append_many([b"1", b"2", b"3"], first_sequence=1) == Appended(
            3, MessageId(1, 0, 2), 3
        )
        more = await producer.append_many([b"2", b"3", b"4", b"5"], first_sequence=2)
        assert more == Appended(5, MessageId(1, 1, 1), 2)
        assert list(more.new_ids) == [MessageId(1, 1, 0), MessageId(1, 1, 1)]
        assert await producer.append_many([b"4"], first_sequence=4) == Appended(4, MessageId(1, 1, 0), 0)
        assert await producer.append_many([b"9"], first_sequence=9, keys=[b"k"]) == Appended(
            9, MessageId(1, 2, 0), 1
        )
        assert await producer.append_many([b"7"], first_sequence=7) == Appended(7, None, 0)
        assert await read(client) == [b"1", b"2", b"3", b"4", b"5", b"9"]
        assert await messages_before(client, LOG) == [0, 3, 5]

    play(scene)


async def test_a_duplicate_is_answered_only_once_the_original_is_acknowledged() -> None:
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("billing")
        for bookie in log.bookies:
            bookie.late = lambda what: added(what) == 0
        original = await producer.submit(b"a", sequence=1)
        duplicate = await producer.submit(b"a", sequence=1)
        await until(lambda: all((current(writer), 0) in bookie.entries for bookie in log.bookies))
        assert not duplicate.done() and producer.last_sequence is None
        original.cancel()
        for bookie in log.bookies:
            bookie.late = lambda what: False
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert (await duplicate).message_id == MessageId(current(writer), 0, 0)
        assert await payloads(client, LOG) == [b"a"]


async def test_a_duplicate_has_appended_nothing_also_if_its_original_was_cancelled() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("billing")
        unsent = await producer.submit_many([b"1", b"2", b"3"], first_sequence=1)
        later = await producer.submit_many([b"2", b"3"], first_sequence=2)
        unsent.cancel()
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            assert (await later).new == 0
        for bookie in log.bookies:
            bookie.be_silent()
        sent = await producer.submit_many([b"4", b"5", b"6"], first_sequence=4)
        await until(lambda: writer._queue.in_flight == 1)
        sent.cancel()
        duplicates = [await producer.submit(b"%d" % number, sequence=number) for number in (5, 6)]
        speak(log)
        async with asyncio.timeout(GUARD_S):
            assert [(await each).new for each in duplicates] == [0, 0]
        assert await payloads(client, LOG) == [b"0", b"1", *(b"%d" % number for number in range(1, 7))]


async def test_a_duplicate_fails_with_its_original_and_the_next_writer_appends_it_once() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("billing")
        await producer.append(b"a", sequence=1)
        for bookie in log.bookies:
            bookie.mute = lambda what: added(what) >= 1
        tries = [await producer.submit(b"b", sequence=2) for _ in range(2)]
        await until(lambda: writer._queue.in_flight == 1)
        writer.abort()
        found = await asyncio.gather(*tries, return_exceptions=True)
        assert [type(error) for error in found] == [AppendIndeterminateError] * 2
        with pytest.raises(AppendAbortedError):
            await producer.append(b"a", sequence=1)
        for bookie in log.bookies:
            bookie.mute = lambda what: False
        newer = await other.open_writer(LOG)
        producer = await newer.producer("billing")
        stored = producer.last_sequence
        assert stored in (1, 2)
        assert (await producer.append(b"b", sequence=2)).new == (1 if stored == 1 else 0)
        assert await payloads(other, LOG) == [b"a", b"b"]


# ---- across writers and ledgers


@pytest.mark.parametrize("held", [True, False])
async def test_a_duplicate_of_what_is_acknowledged_does_not_share_the_outcome_of_a_later_append(
    held: bool,
) -> None:
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("billing")
        first = await producer.append_many([b"a", b"b"], first_sequence=1)
        if held:
            writer._queue.hold()
        for bookie in log.bookies:
            bookie.mute = lambda what: added(what) >= 1
        later = await producer.submit(b"c", sequence=3)
        duplicates = [await producer.submit(b"a", sequence=1), await producer.submit(b"b", sequence=2)]
        overlapping = await producer.submit_many([b"b", b"c"], first_sequence=2)
        async with asyncio.timeout(GUARD_S):
            found = await asyncio.gather(*duplicates)
        assert found == [Appended(1, MessageId(1, 0, 0), 0), Appended(2, MessageId(1, 0, 1), 0)]
        assert first.message_id == found[1].message_id
        assert not later.done() and not overlapping.done(), "its last message has no outcome yet"
        await until(lambda: held or writer._queue.in_flight == 1)
        writer.abort()
        outcomes = await asyncio.gather(later, overlapping, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            AppendAbortedError if held else AppendIndeterminateError
        ] * 2
        for bookie in log.bookies:
            bookie.mute = lambda what: False
        assert (await read(other))[:2] == [b"a", b"b"]


def test_what_a_producer_has_appended_survives_takeovers_and_rotations() -> None:
    """Also takeovers without an append of it, and ledgers without any of a producer."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        first = await (await writer.producer("a")).append(b"a", sequence=10)
        await (await writer.producer("b")).append_many([b"b1", b"b2"], first_sequence=20)
        await writer.rotate()
        await writer.append(b"plain")
        await writer.rotate()
        for term in range(4):
            if term % 2:
                writer.abort()
            else:
                await writer.close()
            writer = await client.open_writer(LOG)
            a, b = await writer.producer("a"), await writer.producer("b")
            assert (a.last_sequence, b.last_sequence) == (10, 21 + term)
            assert await a.append(b"a", sequence=10) == Appended(10, first.message_id, 0)
            more = await b.append_many([b"b%d" % (2 + term), b"b%d" % (3 + term)], first_sequence=21 + term)
            assert more.new == 1
            await writer.append(b"plain")
        assert [one for one in await read(client) if one != b"plain"] == [
            b"a",
            *(b"b%d" % n for n in range(1, 7)),
        ]
        writer.abort()

    play(scene)


def test_a_snapshot_comes_again_after_some_bytes_and_the_newest_one_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_registry, "_INTERVAL_BYTES", 1000)

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        await writer.append(b"before any producer")
        for number in range(30):
            await (await writer.producer(f"p{number % 3}")).append(bytes(100), sequence=number)
        await writer.append(b"last")
        ledger_id = writer.record.ledger_ids[-1]
        writer.abort()
        writer = await client.open_writer(LOG)
        found = [(await writer.producer(f"p{number}")).last_sequence for number in range(3)]
        assert found == [27, 28, 29]
        handle = await client.ledgers.open(ledger_id)
        entries = await handle.read(0, handle.last_readable)
        places = [decode_envelope(entry.payload)[0].producers for entry in entries]
        assert places[0] is None and places[1] is not None and places[1].snapshot == b""
        snapshots = [number for number, place in enumerate(places) if place and place.snapshot is not None]
        assert len(snapshots) == 3
        for number, place in enumerate(places[1:], 1):
            newest = max(each for each in snapshots if each <= number)
            assert place is not None and place.distance == number - newest
        second = places[snapshots[1]]
        assert second is not None and second.snapshot is not None
        assert set(decode_snapshot(second.snapshot)) == {producer_id(f"p{number}") for number in range(3)}
        await handle.close()
        writer.abort()

    play(scene)


def test_a_trim_of_everything_keeps_what_the_producers_have_appended() -> None:
    """The newest ledger with entries stays in the list, also while the one after it is empty."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        await (await writer.producer("a")).append(b"a", sequence=10)
        await writer.rotate()
        for _ in range(3):
            await writer.close()
            writer = await client.open_writer(LOG)
            await client.shrink(LOG, MessageId(writer.record.ledger_ids[-1], 0, 0))
            await client.collect(LOG)
            assert await read(client) == []
            assert (await (await writer.producer("a")).append(b"a", sequence=10)).new == 0
        assert len(await listed_ledgers(client, LOG)) == 2
        writer.abort()

    play(scene)


async def test_an_entry_that_is_sent_again_has_the_snapshot_of_its_new_ledger() -> None:
    """Entry 1 was stored; 2 and 3 were not, and their producers' state goes back before it is in a snapshot."""
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("a")
        await producer.append(b"1", sequence=1)
        first = current(writer)
        for bookie in log.bookies:
            bookie.mute = lambda what: added(what) >= 2
        second = await producer.submit(b"2", sequence=2)
        await until(lambda: all((first, 1) in bookie.entries for bookie in log.bookies))
        later = [await producer.submit(b"%d" % number, sequence=number) for number in (3, 4)]
        await until(lambda: writer._queue.in_flight == 2)
        await fence(tool, first)
        for bookie in log.bookies:
            bookie.speak()
            bookie.mute = lambda what: False
        async with asyncio.timeout(GUARD_S):
            assert (await second).message_id == MessageId(first, 1, 0)
            ids = [(await each).message_id for each in later]
        assert ids == [MessageId(current(writer), number, 0) for number in (0, 1)]
        assert await payloads(client, LOG) == [b"1", b"2", b"3", b"4"]
        writer.abort()
        newer = await client.open_writer(LOG)
        assert (await newer.producer("a")).last_sequence == 4
        handle = await client.ledgers.open(newer.record.ledger_ids[-2])
        [entry] = await handle.read(0, 0)
        place = decode_envelope(entry.payload)[0].producers
        assert place is not None and place.snapshot is not None
        assert decode_snapshot(place.snapshot) == {producer_id("a"): LastMessage(2, MessageId(first, 1, 0))}


# ---- what is cancelled, refused or too much


async def held_writer(
    log: ScriptedLog, client: LogClient, tool: LogClient
) -> tuple[LogWriter, asyncio.Event]:
    """A writer that holds every append until the event is set."""
    writer = await client.open_writer(LOG, create=True)
    await writer.append(b"0")
    recovering = asyncio.Event()
    await fence(tool, current(writer))
    log.cluster.store.before_read = recovering.wait  # type: ignore[assignment]  # something to await
    await writer.submit(b"1")
    await until(lambda: writer._queue.active_ledger is None)
    return writer, recovering


async def test_what_is_cancelled_before_it_is_sent_does_not_count_and_later_ones_are_rejected() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer, other = await writer.producer("a"), await writer.producer("b")
        futures = [await producer.submit(b"a%d" % number, sequence=number) for number in (1, 2, 3)]
        futures.append(await other.submit(b"b9", sequence=9))
        futures[1].cancel()
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            found = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(found[2], AppendRejectedError) and "sequence 2 was cancelled" in str(found[2])
        assert isinstance(found[0], Appended) and isinstance(found[3], Appended)
        assert producer.last_sequence == 1
        assert (await producer.append(b"a1", sequence=1)).new == 0
        with pytest.raises(AppendRejectedError, match="append from 2 on again"):
            await producer.append(b"a4", sequence=4)
        assert (await producer.append_many([b"a2", b"a3"], first_sequence=2)).new == 2
        assert (await producer.append(b"a4", sequence=4)).new == 1
        assert await payloads(client, LOG) == [b"0", b"1", b"a1", b"b9", b"a2", b"a3", b"a4"]


async def test_an_append_that_is_repeated_after_a_cancellation_takes_its_place() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("a")
        first = await producer.submit(b"a1", sequence=1)
        later = await producer.submit(b"a2", sequence=2)
        first.cancel()
        again = await producer.submit(b"a1", sequence=1)
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            assert (await again).new == 1 and (await later).new == 1
        assert await payloads(client, LOG) == [b"0", b"1", b"a1", b"a2"]


async def test_a_cancelled_append_is_left_out_if_the_producer_is_opened_anew() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("a")
        first = await producer.submit(b"a1", sequence=1)
        first.cancel()
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            await writer.append(b"2")
        with pytest.raises(AppendRejectedError):
            await producer.append(b"a2", sequence=2)
        producer = await writer.producer("a")
        assert producer.last_sequence is None
        assert (await producer.append(b"a2", sequence=2)).new == 1
        assert await payloads(client, LOG) == [b"0", b"1", b"2", b"a2"]


def small_buffer(log: ScriptedLog) -> AbstractAsyncContextManager[LogClient]:
    """A client whose writers have buffer space for two entries of `FILLING`."""
    return log.client(batching=BatchLimits(entry_bytes_max=4096), buffer_bytes_max=2 * len(FILLING))


async def fill(log: ScriptedLog, writer: LogWriter) -> None:
    """Until the bookies speak, every further append waits for buffer space."""
    for bookie in log.bookies:
        bookie.be_silent()
    for _ in range(2):
        await writer.submit_many([FILLING])


def speak(log: ScriptedLog) -> None:
    for bookie in log.bookies:
        bookie.speak()


async def waiting(append: Coroutine[Any, Any, Appended]) -> asyncio.Task[Appended]:
    """A task that has come as far as it can."""
    task = asyncio.create_task(append)
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("appended", [False, True])
async def test_what_is_cancelled_while_it_waits_for_buffer_space_does_not_count(appended: bool) -> None:
    """Also the very first append of a producer."""
    async with scripted_log() as log, small_buffer(log) as client:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("a")
        if appended:
            await producer.append(b"a1", sequence=1)
        await fill(log, writer)
        cancelled = await waiting(producer.append_many([b"a7", b"a8"], first_sequence=7))
        later = await waiting(producer.append(b"a9", sequence=9))
        cancelled.cancel()
        speak(log)
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendRejectedError, match="sequence 7 was cancelled"):
                await later
            with pytest.raises(AppendRejectedError, match="append from 7 on again"):
                await producer.append(b"a8", sequence=8)
            assert (await producer.append(b"a7", sequence=7)).new == 1
            assert (await producer.append_many([b"a8", b"a9"], first_sequence=8)).new == 2
        found = [each for each in await payloads(client, LOG) if each != FILLING]
        assert found == [b"a1"] * appended + [b"a7", b"a8", b"a9"]


@pytest.mark.parametrize("how", ["wait_for", "task", "submit", "many", "wait_for in a task"])
def test_what_is_cancelled_before_its_first_step_does_not_count(how: str) -> None:
    """Of a task that is cancelled before its first step asyncio runs nothing."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("billing")
        await producer.append(b"6", sequence=6)
        begin: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "submit": lambda: producer.submit(b"7", sequence=7),
            "many": lambda: producer.append_many([b"7"], first_sequence=7),
        }
        call = begin.get(how, lambda: producer.append(b"7", sequence=7))()
        if how == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, timeout=0)
        elif how == "wait_for in a task":
            task = asyncio.create_task(asyncio.wait_for(call, timeout=9))
            task.cancel()
        else:
            task = asyncio.create_task(call)
            task.cancel()
        later = asyncio.create_task(producer.append(b"8", sequence=8))
        with pytest.raises(AppendRejectedError):
            await later
        assert (await producer.append(b"7", sequence=7)).new == 1
        assert (await producer.append(b"8", sequence=8)).new == 1
        assert await read(client) == [b"6", b"7", b"8"]
        call.close()  # Python warns of one that is only dropped

    play(scene)


async def test_a_call_that_is_dropped_does_not_count() -> None:
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("a")
        with pytest.warns(RuntimeWarning, match="never awaited"):
            producer.append(b"7", sequence=7)  # type: ignore[unused-coroutine]
        assert not producer._made
        with pytest.raises(AppendRejectedError, match="append from 7 on again"):
            await producer.append(b"8", sequence=8)


def test_a_call_that_begins_later_than_the_next_one_is_there_or_the_next_one_is_not() -> None:
    """In Python 3.11 `wait_for` makes a task, so that the call has its first step a turn of the loop later."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("billing")
        calls = [producer.append(b"%d" % sequence, sequence=sequence) for sequence in (1, 2, 3)]
        second = asyncio.create_task(calls[1])
        first = asyncio.create_task(asyncio.wait_for(calls[0], timeout=9))
        with pytest.raises(AppendRejectedError, match="append from 1 on again"):
            await second
        assert (await first).new == 1
        with pytest.raises(AppendRejectedError, match="append from 2 on again"):
            await calls[2]
        assert (await producer.append_many([b"2", b"3"], first_sequence=2)).new == 2
        assert await read(client) == [b"1", b"2", b"3"]

    play(scene)


@pytest.mark.parametrize("begins", [True, False])
def test_none_of_the_sequences_of_a_call_that_has_not_begun_is_passed(begins: bool) -> None:
    """Also if the first ones are appended by another call."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("billing")
        late = producer.append_many((b"%d" % sequence for sequence in (1, 2, 3)), first_sequence=1)
        assert (await producer.append(b"1", sequence=1)).new == 1
        with pytest.raises(AppendRejectedError, match="append from 2 on again"):
            await producer.append(b"4", sequence=4)
        if begins:
            assert (await late).new == 2
        else:
            late.close()
            with pytest.raises(AppendRejectedError, match="append from 2 on again"):
                await producer.append(b"4", sequence=4)
            assert (await producer.append_many([b"2", b"3"], first_sequence=2)).new == 2
        assert (await producer.append(b"4", sequence=4)).new == 1
        assert await read(client) == [b"1", b"2", b"3", b"4"]

    play(scene)


async def test_of_what_is_cancelled_while_it_waits_only_what_was_not_appended_is_missing() -> None:
    """What comes before it is accepted, and does not take its place."""
    async with scripted_log() as log, small_buffer(log) as client:
        writer = await client.open_writer(LOG, create=True)
        producer = await writer.producer("a")
        await producer.append_many([b"a1", b"a2"], first_sequence=1)
        await fill(log, writer)
        duplicate = await waiting(producer.append(b"a2", sequence=2))
        before = await waiting(producer.append(b"a3", sequence=3))
        cancelled = await waiting(producer.append_many([b"a3", b"a4"], first_sequence=3))
        later = await waiting(producer.append(b"a5", sequence=5))
        duplicate.cancel()
        cancelled.cancel()
        speak(log)
        async with asyncio.timeout(GUARD_S):
            assert (await before).new == 1
            with pytest.raises(AppendRejectedError, match="sequence 4 was cancelled"):
                await later
            assert (await producer.append_many([b"a4", b"a5"], first_sequence=4)).new == 2
        assert [each for each in await payloads(client, LOG) if each != FILLING] == [
            b"a%d" % number for number in range(1, 6)
        ]


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_producer_of_which_nothing_was_sent_takes_no_place_and_begins_anew(
    forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_registry, "PRODUCERS_MAX", 1)
    async with scripted_log() as log, small_buffer(log) as client:
        writer = await client.open_writer(LOG, create=True)
        producer, other = await writer.producer("a"), await writer.producer("b")
        await fill(log, writer)
        (await waiting(producer.append(b"a1", sequence=1))).cancel()
        speak(log)
        async with asyncio.timeout(GUARD_S):
            assert (await other.append(b"b1", sequence=1)).new == 1
            with pytest.raises(TooManyProducersError):
                await producer.append(b"a1", sequence=1)
            await writer.forget_producer("b")
            with pytest.raises(AppendRejectedError, match="sequence 1 was cancelled"):
                await producer.append(b"a2", sequence=2)
            if forgotten:
                assert not await writer.forget_producer("a")
            else:
                await writer.producer("a")
            assert (await producer.append(b"a2", sequence=2)).new == 1


async def test_each_of_several_cancelled_appends_must_be_repeated() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("a")
        futures = [await producer.submit(b"a%d" % number, sequence=number) for number in (10, 20, 30)]
        futures[0].cancel()
        futures[1].cancel()
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendRejectedError, match="sequence 10 was cancelled"):
                await futures[2]
            assert (await producer.append(b"a10", sequence=10)).new == 1
            with pytest.raises(AppendRejectedError, match="sequence 20 was cancelled"):
                await producer.append(b"a30", sequence=30)
            assert (await producer.append(b"a20", sequence=20)).new == 1
            assert (await producer.append(b"a30", sequence=30)).new == 1
        assert await payloads(client, LOG) == [b"0", b"1", b"a10", b"a20", b"a30"]


async def test_what_was_rejected_must_be_repeated_as_well() -> None:
    """Else a later one, of another task of the program, would make it look as if it were in the log."""
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("a")
        futures = [await producer.submit(b"a%d" % number, sequence=number) for number in (1, 2)]
        futures[0].cancel()
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            for rejected in (futures[1], producer.append(b"a3", sequence=3)):
                with pytest.raises(AppendRejectedError, match="sequence 1 was cancelled"):
                    await rejected
            assert (await producer.append(b"a1", sequence=1)).new == 1
            with pytest.raises(AppendRejectedError, match="append from 2 on again"):
                await producer.append(b"a4", sequence=4)
            assert (await producer.append(b"a2", sequence=2)).new == 1
            with pytest.raises(
                AppendRejectedError, match="append from 3 on again"
            ):  # rejected before it was held
                await producer.append(b"a4", sequence=4)
            for number in (3, 4):
                assert (await producer.append(b"a%d" % number, sequence=number)).new == 1
        assert await payloads(client, LOG) == [b"0", b"1", b"a1", b"a2", b"a3", b"a4"]


def test_a_forgotten_producer_begins_anew_and_takes_no_place() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("a")
        await producer.append(b"a", sequence=5)
        await (await writer.producer("b")).append(b"b", sequence=6)
        pending = await producer.submit(b"c", sequence=7)
        with pytest.raises(AppendRejectedError, match="1 appends without an outcome"):
            await writer.forget_producer("a")
        await pending
        assert await writer.forget_producer("a")
        assert not await writer.forget_producer("a")
        await writer.append(b"plain")
        writer.abort()
        writer = await client.open_writer(LOG)
        producer = await writer.producer("a")
        assert producer.last_sequence is None and (await writer.producer("b")).last_sequence == 6
        assert (await producer.append(b"a", sequence=1)).new == 1
        assert await writer.forget_producer("a") and await writer.forget_producer("b")
        await writer.append(b"plain")
        writer.abort()
        writer = await client.open_writer(LOG)
        assert not writer._queue.producers.in_use
        writer.abort()

    play(scene)


def test_there_is_a_most_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_registry, "PRODUCERS_MAX", 2)

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        for name in ("a", "b"):
            await (await writer.producer(name)).append(b"1", sequence=1)
        third = await writer.producer("c")
        with pytest.raises(TooManyProducersError, match="has 2 producers, the limit is 2: forget those"):
            await third.append(b"1", sequence=1)
        assert (await (await writer.producer("b")).append(b"2", sequence=2)).new == 1
        await writer.forget_producer("a")
        assert (await third.append(b"1", sequence=1)).new == 1

    play(scene)


def test_what_found_no_place_among_the_producers_must_be_repeated_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a later one would make it look as if it were in the log."""
    monkeypatch.setattr(producer_registry, "PRODUCERS_MAX", 1)

    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        await (await writer.producer("a")).append(b"a", sequence=1)
        other = await writer.producer("b")
        with pytest.raises(TooManyProducersError):
            await other.append(b"b7", sequence=7)
        await writer.forget_producer("a")
        with pytest.raises(AppendRejectedError, match="append from 7 on again"):
            await other.append(b"b8", sequence=8)
        for number in (7, 8):
            assert (await other.append(b"b%d" % number, sequence=number)).new == 1
        assert await read(client) == [b"a", b"b7", b"b8"]

    play(scene)


# ---- capacity for snapshots


def ledger_limit(entry_bytes_max: int) -> LedgerClientConfig:
    return replace(QUICK.ledger, entry_bytes_max=entry_bytes_max)


async def append_largest(writer: LogWriter, producer: LogProducer, sequence: int) -> None:
    """The largest entry of every kind, each with a snapshot."""
    largest = bytes(writer.batch_limits.body_bytes_max - 20)
    async with asyncio.timeout(GUARD_S):
        await writer.append(largest)
        await writer.rotate()
        await writer.append_many([largest])
        await writer.rotate()
        assert (await producer.append(largest, sequence=sequence)).new == 1
        await writer.flush()


@pytest.mark.parametrize("capacity", [0, 3])
async def test_producers_are_as_many_as_a_ledgers_entry_has_capacity_for(capacity: int) -> None:
    """In addition to messages: the limit of a ledger's entries may be as low as that of batches."""
    limit = 1 << 16
    batching = BatchLimits(entry_bytes_max=limit - capacity * PRODUCER_BYTES, batch_bytes=1000)
    async with scripted_log() as log, log.client(ledger=ledger_limit(limit), batching=batching) as client:
        writer = await client.open_writer(LOG, create=True)
        producers = [await writer.producer(f"p{number}") for number in range(capacity + 1)]
        for producer in producers[:-1]:
            assert (await producer.append(b"", sequence=1)).new == 1
        with pytest.raises(
            TooManyProducersError,
            match=f"the limit is {capacity} with .* {batching.entry_bytes_max} and .* {limit}: ",
        ):
            await producers[-1].append(b"", sequence=1)
        if capacity:
            await append_largest(writer, producers[0], 2)


async def test_a_writer_with_less_capacity_makes_smaller_entries_or_is_refused() -> None:
    limit = 1 << 12
    batching = BatchLimits(entry_bytes_max=limit, batch_bytes=1000)
    count = 20
    small = {"ledger": ledger_limit(limit), "batching": batching}
    async with scripted_log() as log, log.client() as client, log.client(**small) as other:
        writer = await client.open_writer(LOG, create=True)
        for number in range(count):
            await (await writer.producer(f"p{number}")).append(b"", sequence=1)
        await writer.close()
        writer = await other.open_writer(LOG)
        assert writer.batch_limits.entry_bytes_max == limit - count * PRODUCER_BYTES
        await append_largest(writer, await writer.producer("p0"), 2)
        await writer.close()
        writer = await client.open_writer(LOG)
        for number in range(count, 100):
            await (await writer.producer(f"p{number}")).append(b"", sequence=1)
        await writer.close()
        with pytest.raises(ConfigurationError, match=r"100 producers, .* 4400 bytes .* raise it"):
            await other.open_writer(LOG)
        writer = await client.open_writer(LOG)
        assert (await writer.producer("p99")).last_sequence == 1


async def test_producers_that_are_learned_later_must_fit_too() -> None:
    """Other appends go on, with nearly the whole entry."""
    limit = 1 << 12
    small = {"ledger": ledger_limit(limit), "batching": BatchLimits(entry_bytes_max=limit, batch_bytes=1000)}
    async with scripted_log() as log, log.client() as client, log.client(**small) as other:
        writer = await client.open_writer(LOG, create=True)
        for number in range(20):
            await (await writer.producer(f"p{number}")).append(b"", sequence=1)
        old = current(writer)
        await writer.close()
        lost = [bookie.entries.pop((old, 19)) for bookie in log.bookies]
        writer = await other.open_writer(LOG)
        for bookie, entry_bytes in zip(log.bookies, lost, strict=True):
            bookie.entries[old, 19] = entry_bytes
        with pytest.raises(ConfigurationError, match=r"20 producers, .* 880 bytes"):
            await writer.producer("p0")
        await writer.append(bytes(limit * 7 // 8 - 300))


@pytest.mark.parametrize("held", [False, True])
async def test_what_a_ledger_refuses_fails_alone(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limits are the writer's own, so it never does; if it did, the entry must not be lost without an outcome."""
    refused = EntryTooLargeError("refused", entry_bytes=2, entry_bytes_max=1)

    def submit(self: ActiveLedger, pending_entry: PendingEntry, now: float, *, flushes: bool) -> int:
        if pending_entry.count == 3:
            raise refused
        return accepted(self, pending_entry, now, flushes=flushes)

    accepted = ActiveLedger.submit
    monkeypatch.setattr(ActiveLedger, "submit", submit)
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer, go_on = await held_writer(log, client, tool)
        producer = await writer.producer("a")
        if not held:
            go_on.set()
            await writer.append(b"2")
        wrong = await producer.submit_many([b"a1", b"a2", b"a3"], first_sequence=1)
        other = await writer.submit(b"b")
        go_on.set()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(EntryTooLargeError):
                await wrong
            await other
            with pytest.raises(AppendRejectedError):
                await producer.append(b"a4", sequence=4)
            await writer.flush()
        assert writer.buffered_bytes == 0


@pytest.mark.parametrize("sequence", [-1, 2**63, "1", 1.0])
def test_a_sequence_is_a_number_of_63_bits(sequence: int) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writer: LogWriter) -> None:
        producer = await writer.producer("a")
        with pytest.raises(ConfigurationError, match="sequence"):
            await producer.append(b"", sequence=sequence)
        with pytest.raises(AppendRejectedError):
            await producer.append_many([], first_sequence=1)
        with pytest.raises(MessageTooLargeError):
            await producer.append(bytes(2 << 20), sequence=1)
        with pytest.raises(InvalidNameError):
            await writer.producer("not valid")
        assert producer.last_sequence is None
        assert (await producer.append(b"", sequence=2**63 - 1)).new == 1

    play(scene)


async def test_a_writer_that_has_ended_has_no_producers() -> None:
    """And forgets none: that would take effect with its next append."""
    async with scripted_log() as log, log.client() as client, log.client() as other:
        for end in ("close", "abort", "takeover"):
            writer = await client.open_writer(LOG, create=end == "close")
            await (await writer.producer("a")).append(b"", sequence=1)
            if end == "takeover":
                await (await other.open_writer(LOG)).close()
                with pytest.raises(WriterDeposedError):
                    await writer.append(b"")
            elif end == "close":
                await writer.close()
            else:
                writer.abort()
            refusal = WriterDeposedError if end == "takeover" else AppendAbortedError
            with pytest.raises(refusal):
                await writer.producer("a")
            with pytest.raises(refusal):
                await writer.forget_producer("a")


# ---- what cannot be read


async def test_producers_that_take_too_long_to_read_are_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A timeout has no text of its own."""
    monkeypatch.setattr(writer_opening, "_PRODUCERS_S_MAX", 0.05)
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer(LOG, create=True)
        await (await writer.producer("a")).append(b"a", sequence=3)
        await writer.close()
        for bookie in log.bookies:
            bookie.mute = lambda what: "read" in what or "batch" in what
        writer = await client.open_writer(LOG)
        assert [record.message for record in caplog.records if "producers" in record.message] == [
            f"log default/{LOG}: its producers cannot append yet: their state cannot be read: not read within 0.05 s; "
            "`producer` tries again"
        ]
        for bookie in log.bookies:
            bookie.speak()
        assert (await writer.producer("a")).last_sequence == 3


async def test_a_writer_whose_producers_cannot_be_read_appends_and_learns_them_later() -> None:
    """The ledgers in which it could not read them point to the ones before."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer(LOG, create=True)
        await (await writer.producer("a")).append(b"a", sequence=3)
        old = current(writer)
        await writer.close()
        lost = [bookie.entries.pop((old, 0)) for bookie in log.bookies]
        for _ in range(2):
            writer = await client.open_writer(LOG)
            await writer.append(b"plain")
            with pytest.raises(DataLossError, match="cannot determine what the producers have appended"):
                await writer.producer("a")
            handle = await client.ledgers.open(current(writer))
            [entry] = await handle.read(0, 0)
            place = decode_envelope(entry.payload)[0].producers
            assert place is not None and place.distance == ELSEWHERE
            await writer.rotate()
        for bookie, entry_bytes in zip(log.bookies, lost, strict=True):
            bookie.entries[old, 0] = entry_bytes
        producer = await writer.producer("a")
        assert producer.last_sequence == 3
        assert (await producer.append_many([b"a", b"b"], first_sequence=3)).new == 1
        writer.abort()
        writer = await client.open_writer(LOG)
        assert (await writer.producer("a")).last_sequence == 4


async def test_a_ledger_that_is_given_up_and_exists_keeps_its_producers() -> None:
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer(LOG, create=True) as writer:
            await (await writer.producer("a")).append(b"a", sequence=3)
            given_up = current(writer)
        async with client.open_writer(LOG, given_up=[given_up]) as writer:
            producer = await writer.producer("a")
            assert producer.last_sequence == 3
            assert (await producer.append(b"a", sequence=3)).new == 0
        assert await read(client) == [b"a"]


async def test_instead_of_a_lost_ledger_that_is_given_up_the_one_before_has_the_producers() -> None:
    """The ledgers after it point to it: it was lost before they were opened. It is not fenced, so it stays listed."""
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer(LOG, create=True) as writer:
            producer = await writer.producer("a")
            await producer.append(b"a", sequence=3)
            await writer.rotate()
            await producer.append(b"b", sequence=4)
            lost = current(writer)
        for bookie in log.bookies:
            del bookie.entries[lost, 0]
        for _ in range(2):
            async with client.open_writer(LOG) as writer:
                await writer.append(b"plain")
        await client.ledgers.delete(lost)
        async with client.open_writer(LOG, given_up=[lost]) as writer:
            assert lost in writer.record.ledger_ids
            assert (await writer.producer("a")).last_sequence == 3


async def test_the_error_of_a_lost_newest_ledger_names_the_way_out_and_that_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer(LOG, create=True) as writer:
            producer = await writer.producer("a")
            await producer.append(b"a", sequence=3)
            await writer.rotate()
            await producer.append(b"b", sequence=4)
            lost = current(writer)
        await client.ledgers.delete(lost)
        way_out = f"open_writer(..., given_up=[{lost}]) or `dlog append --given-up {lost}`"
        async with client.open_writer(LOG) as writer:
            with pytest.raises(DataLossError, match=re.escape(way_out)) as raised:
                await writer.producer("a")
            assert "on_data_loss" not in str(raised.value)
        [warning] = [each for each in caplog.messages if "its producers cannot append yet" in each]
        assert way_out in warning
        async with client.open_writer(LOG, given_up=[lost]) as writer:
            assert (await writer.producer("a")).last_sequence == 3
