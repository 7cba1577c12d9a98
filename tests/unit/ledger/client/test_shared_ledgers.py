"""Readers of one ledger in one client: what they share, and that none of them can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ledger.errors import EntryNotFoundError, LedgerNotFoundError
from ledger.model import EntryId, LedgerId, LedgerMetadata, QuorumSizes, Versioned
from ledger.reading import entry_runs
from ledger.reading.entry_runs import EntryRun
from ledger.reading.read_handle import ReadHandle
from ledger.reading.shared_ledgers import SharedLedger
from ledger.signal import Signal
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import GUARD_S, NEVER_S, Cluster, scripted_cluster, until

READERS = 5
LIMITS = {"max_entries": 100, "max_bytes": 1 << 20}


async def written(cluster: Cluster, count: int = 3) -> WriteHandle:
    handle = await cluster.client.create(QuorumSizes())
    for number in range(count):
        await handle.add(b"%d" % number)
    return handle


async def opened(cluster: Cluster, writer: WriteHandle, readers: int = READERS) -> list[SharedLedger]:
    shared = cluster.client.shared
    return list(await asyncio.gather(*(shared.open(writer.ledger_id) for _ in range(readers))))


def asked(cluster: Cluster, *beginnings: str) -> int:
    return sum(what.startswith(beginnings) for bookie in cluster.bookies for what in bookie.log)


def claim(cluster: Cluster, lac: int) -> None:
    for bookie in cluster.bookies:
        bookie.claims = lac


async def waiting(
    readers: Sequence[SharedLedger], beyond: int, unless: Signal | None = None
) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(each.wait_for_lac(beyond, NEVER_S, unless or Signal())) for each in readers]
    await asyncio.sleep(0.02)
    return tasks


async def all_of(tasks: Sequence[asyncio.Task[bool]]) -> list[bool]:
    async with asyncio.timeout(GUARD_S):
        return await asyncio.gather(*tasks)


async def test_those_who_open_together_share_the_opening() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        reads = 0

        async def count() -> None:
            nonlocal reads
            reads += 1

        cluster.store.before_read = count
        readers = await opened(cluster, writer)
        assert len(set(map(id, readers))) == 1
        assert reads == 1
        for each in readers:
            await each.close()


async def test_an_opening_that_is_cancelled_at_any_moment_leaves_nothing_open() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        shared: Any = cluster.client.shared
        opened_once = False
        for turns in range(100):
            tasks = [asyncio.create_task(shared.open(writer.ledger_id)) for _ in range(2)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(found, SharedLedger):
                    opened_once = True
                    await found.close()
            await asyncio.sleep(0)
            assert not shared._shared, f"cancelled after {turns} turns of the loop"
            assert not [each for each in asyncio.all_tasks() if "SharedCall" in repr(each)]
        assert opened_once


async def test_one_who_opens_later_sees_what_succeeded_before() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster, 2)
        (first,) = await opened(cluster, writer, 1)
        assert first.last_readable == 1
        await writer.add(b"2")
        (second,) = await opened(cluster, writer, 1)
        assert second.last_readable == 2
        await first.close()
        await second.close()


@pytest.mark.parametrize("is_closed_meanwhile", [False, True])
async def test_openings_that_overlap_end_in_one_handle_that_knows_what_each_saw(
    is_closed_meanwhile: bool,
) -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster, 2)
        held, reads = asyncio.Event(), list[int]()

        async def hold_the_first() -> None:
            reads.append(1)
            if len(reads) == 1:
                await held.wait()

        cluster.store.before_read = hold_the_first
        slow = asyncio.create_task(cluster.client.shared.open(writer.ledger_id))
        await until(lambda: len(reads) == 1)
        (quick,) = await opened(cluster, writer, 1)
        assert (len(reads), quick.last_readable) == (2, 1)
        await writer.add(b"2")
        if is_closed_meanwhile:
            await writer.close()
        held.set()
        assert await slow is quick
        assert (quick.last_readable, quick.closed) == (2, is_closed_meanwhile)
        await quick.close()
        assert not quick.is_closed, "one reader is left"
        await quick.close()


async def test_the_last_reader_of_the_others_may_close_while_an_opening_learns() -> None:
    """The opening is not cancelled, which its caller would take for its own end."""
    async with scripted_cluster() as cluster:
        writer = await written(cluster, 2)
        opening, refreshing, reads = asyncio.Event(), asyncio.Event(), list[int]()

        async def hold_the_first_and_the_last() -> None:
            reads.append(1)
            if len(reads) in (1, 4):
                await (opening if len(reads) == 1 else refreshing).wait()

        cluster.store.before_read = hold_the_first_and_the_last
        slow = asyncio.create_task(cluster.client.shared.open(writer.ledger_id))
        await until(lambda: len(reads) == 1)
        (quick,) = await opened(cluster, writer, 1)
        await writer.close()
        before = len(reads)
        reads.extend([1] * (3 - before))
        opening.set()
        await until(lambda: len(reads) == 4)
        await quick.close()
        refreshing.set()
        found = await slow
        assert (found.last_readable, found.closed, found.is_closed) == (1, True, False)
        await found.close()
        assert found.is_closed


async def test_one_who_wants_fresh_metadata_does_not_join_an_opening_by_older() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster, 2)
        glance, held = cluster.store.glance_at_ledgers, asyncio.Event()

        async def older(ledger_ids: Sequence[LedgerId]) -> dict[LedgerId, Versioned[LedgerMetadata]]:
            found: dict[LedgerId, Versioned[LedgerMetadata]] = await glance(ledger_ids)
            await held.wait()
            return found

        cluster.store.glance_at_ledgers = older
        shared = cluster.client.shared
        early = asyncio.create_task(shared.open(writer.ledger_id, fresh=False))
        await asyncio.sleep(0.01)
        await writer.close()
        (fresh,) = await opened(cluster, writer, 1)
        assert fresh.closed
        held.set()
        assert await early is fresh
        again = await shared.open(writer.ledger_id, fresh=False)
        assert again is fresh
        for each in (fresh, again, fresh):
            await each.close()
        assert fresh.is_closed


async def test_all_who_wait_share_a_long_poll_and_one_fetch() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer)
        tasks = await waiting(readers, 2)
        for bookie in cluster.bookies:
            bookie.log.clear()
        await writer.add(b"3")
        await writer.add(b"4")
        claim(cluster, 4)
        assert await all_of(tasks) == [True] * READERS
        assert await readers[0].refresh() == 4  # the bookie that proved the claim may know of entry 3 only
        found = await asyncio.gather(*(each.read_batch(3, **LIMITS) for each in readers))
        assert [bytes(entry.payload) for entry in found[0].entries] == [b"3", b"4"]
        assert all(each is found[0] for each in found)
        assert asked(cluster, "batch", "read 3") == 1
        late = await readers[0].read_batch(3, **LIMITS)
        assert late is found[0]
        assert asked(cluster, "batch", "read 3") == 1
        for each in readers:
            await each.close()


async def test_one_reader_alone_keeps_nothing_for_others() -> None:
    async with scripted_cluster() as cluster:
        (reader,) = await opened(cluster, await written(cluster), 1)
        found = await reader.read_batch(0, **LIMITS)
        assert found.decoded is None
        assert await reader.read_batch(0, **LIMITS) is not found
        await reader.close()


async def test_one_who_stops_waiting_leaves_the_others_their_poll() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer)
        tasks = await waiting(readers, 2)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        await writer.add(b"3")
        claim(cluster, 3)
        assert await all_of(tasks[1:]) == [True] * (READERS - 1)
        for each in readers:
            await each.close()


async def test_a_poll_ends_with_the_last_who_waits() -> None:
    async with scripted_cluster() as cluster:
        readers = await opened(cluster, await written(cluster))
        tasks = await waiting(readers, 2)
        polling = readers[0]._poll
        assert polling is not None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(polling.cancelled)
        for each in readers:
            await each.close()


async def test_a_signal_ends_the_wait_of_those_who_gave_it() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer, 2)
        signal = Signal()
        [interrupted] = await waiting(readers[:1], 2, signal)
        [other] = await waiting(readers[1:], 2)
        signal.set()
        assert await all_of([interrupted]) == [False]
        assert not other.done()
        await writer.add(b"3")
        claim(cluster, 3)
        assert await all_of([other]) == [True]
        for each in readers:
            await each.close()


async def test_one_who_is_interrupted_and_waits_again_keeps_the_long_poll() -> None:
    """What that has learned is not lost: it may be about to read that the ledger is closed."""
    async with scripted_cluster() as cluster:
        (reader,) = await opened(cluster, await written(cluster), 1)
        polls, handle = list[int](), reader._handle
        look = handle.wait_for_lac

        async def counted(beyond: int, timeout_s: float) -> int:
            polls.append(beyond)
            return await look(beyond, timeout_s)

        handle.wait_for_lac = counted  # type: ignore[method-assign]
        signals = [Signal() for _ in range(3)]

        async def wait_again() -> None:
            for signal in signals:
                assert not await reader.wait_for_lac(2, NEVER_S, signal)

        task = asyncio.create_task(wait_again())
        for signal in signals:
            await asyncio.sleep(0.01)
            assert reader._poll is not None
            signal.set()
        async with asyncio.timeout(GUARD_S):
            await task
        assert len(polls) == 1
        await asyncio.sleep(0.01)
        assert reader._poll is None, "no reader waits any more"
        await reader.close()


async def test_an_entry_that_becomes_known_before_the_long_poll_begins_ends_the_wait() -> None:
    async with scripted_cluster() as cluster:
        (reader,) = await opened(cluster, await written(cluster), 1)
        task = asyncio.create_task(reader.wait_for_lac(2, NEVER_S, Signal()))
        asyncio.get_running_loop().call_soon(reader.confirm, 3)  # after the wait began, and before its poll
        assert await all_of([task]) == [True]
        await reader.close()


@pytest.mark.parametrize("by", ["refresh", "read_lac", "confirm"])
async def test_an_entry_that_another_reader_has_learned_of_ends_the_wait(by: str) -> None:
    """The bookies that are polled may be late. Those who wait for more wait on."""
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer, 3)
        [task] = await waiting(readers[:1], 2)
        [patient] = await waiting(readers[1:2], 3)
        await writer.add(b"3")
        if by == "confirm":
            readers[2].confirm(3)
        else:
            await getattr(readers[2], by)()
        assert readers[2].last_readable == 3
        assert await all_of([task]) == [True]
        await asyncio.sleep(0.01)
        assert not patient.done()
        patient.cancel()
        for each in readers:
            await each.close()


async def test_each_waits_as_long_as_it_wants() -> None:
    async with scripted_cluster() as cluster:
        readers = await opened(cluster, await written(cluster), 3)
        [patient] = await waiting(readers[:1], 2)
        async with asyncio.timeout(GUARD_S):
            assert await readers[1].wait_for_lac(2, 0.05, Signal())
        [first_again] = await waiting(readers[2:], 2)
        assert readers[0].last_readable == 2
        assert not patient.done()
        for task in (patient, first_again):
            task.cancel()
        for each in readers:
            await each.close()


async def test_a_short_wait_does_not_end_that_of_one_who_joined_it() -> None:
    async with scripted_cluster() as cluster:
        readers = await opened(cluster, await written(cluster), 2)
        short = asyncio.create_task(readers[0].wait_for_lac(2, 0.05, Signal()))
        await asyncio.sleep(0.01)
        [patient] = await waiting(readers[1:], 2)
        assert await all_of([short]) == [True]
        await asyncio.sleep(0.05)
        assert not patient.done()
        patient.cancel()
        for each in readers:
            await each.close()


async def test_an_error_reaches_each_who_waits() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer)
        tasks = await waiting(readers, 2)
        await cluster.client.delete(writer.ledger_id)
        async with asyncio.timeout(GUARD_S):
            found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, LedgerNotFoundError) for each in found)
        assert len(set(map(id, found))) == READERS
        for each in readers:
            await each.close()


async def test_a_failed_fetch_reaches_each_and_is_not_kept() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer)
        lost = [bookie.entries.pop((writer.ledger_id, 0)) for bookie in cluster.bookies]
        reads = [each.read_batch(0, **LIMITS) for each in readers]
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(each, EntryNotFoundError) for each in found)
        for bookie, entry in zip(cluster.bookies, lost, strict=True):
            bookie.entries[writer.ledger_id, 0] = entry
        assert len((await readers[0].read_batch(0, **LIMITS)).entries) == 3
        for each in readers:
            await each.close()


async def test_a_ledger_is_kept_until_its_last_reader_has_closed_it() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        readers = await opened(cluster, writer)
        for each in readers[1:]:
            await each.close()
        assert not readers[0].is_closed
        await readers[0].close()
        assert readers[0].is_closed
        (again,) = await opened(cluster, writer, 1)
        assert again is not readers[0]
        await again.close()


async def test_one_that_is_closed_while_others_open_it_is_opened_anew() -> None:
    async with scripted_cluster() as cluster:
        writer = await written(cluster)
        opening = [asyncio.create_task(cluster.client.shared.open(writer.ledger_id)) for _ in range(2)]
        opening[0].add_done_callback(lambda done: asyncio.ensure_future(done.result().close()))
        _, second = await asyncio.gather(*opening)
        await asyncio.sleep(0.01)
        assert not second.is_closed
        assert len((await second.read_batch(0, **LIMITS)).entries) == 3
        await second.close()


async def test_what_is_kept_for_others_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_runs, "_RECENT_BYTES_MAX", 2500)
    async with scripted_cluster() as cluster:
        readers = await opened(cluster, await written(cluster, 5), 2)
        runs = [await readers[0].read_batch(first, max_entries=1, max_bytes=1000) for first in range(4)]
        again = [await readers[1].read_batch(first, max_entries=1, max_bytes=1000) for first in (2, 3, 0)]
        assert again[:2] == runs[2:]
        assert again[0] is runs[2]
        assert again[2] is not runs[0]
        for each in readers:
            await each.close()


async def test_a_run_is_cut_to_the_limits_of_who_asks() -> None:
    async with scripted_cluster() as cluster:
        readers = await opened(cluster, await written(cluster, 5), 2)
        whole = await readers[0].read_batch(0, **LIMITS)
        assert len(whole.entries) == 5

        async def cut(max_entries: int, max_bytes: int) -> EntryRun:
            return await readers[1].read_batch(0, max_entries=max_entries, max_bytes=max_bytes)

        assert [len((await cut(*limits)).entries) for limits in ((2, 1000), (9, 3), (9, 0))] == [2, 3, 1]
        assert (await cut(2, 1000)).decoded is whole.decoded
        assert (await cut(2, 1000)).byte_count == 2
        for each in readers:
            await each.close()


async def test_overlapping_reads_of_the_lac_take_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that began first ends last, with less."""
    async with scripted_cluster() as cluster:
        handle: ReadHandle = await cluster.client.open((await written(cluster, 1)).ledger_id)
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        begun = iter(answers)
        monkeypatch.setattr(handle._lac_reader, "covering", lambda metadata: next(begun))
        refreshes = []
        for _ in range(2):
            refreshes.append(asyncio.create_task(handle.refresh()))
            await asyncio.sleep(0.01)
        answers[1].set_result(EntryId(7))
        await refreshes[1]
        answers[0].set_result(EntryId(5))
        await refreshes[0]
        assert handle.last_readable == 7


async def test_overlapping_reads_of_the_metadata_take_nothing_back() -> None:
    """A reader must not see a closed ledger open again."""
    async with scripted_cluster() as cluster:
        writer = await written(cluster, 1)
        handle = await cluster.client.open(writer.ledger_id)
        found = await cluster.store.read_ledger(writer.ledger_id)
        await writer.close()
        await handle.refresh()
        assert handle.closed
        handle._adopt(found)
        assert handle.closed
