"""All readers of a client share a limit of what they hold: it is kept, and no reader depends on another one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress

import pytest

from dlog.errors import DataLossError
from dlog.read.config import ReaderConfig
from dlog.read.reader import Reader
from dlog.read_ahead_budget import ReadAheadBudget, ReadAheadShare
from ledger.errors import ReadError
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.memory_ledgers import MemoryLog, poll
from tests.helpers.log.reading import UNTIL_LATEST, payloads, play
from tests.helpers.log.scripted_log import scripted_log

KIB = 1024
SMALLEST = 64 * KIB


def shares_of(budget: ReadAheadBudget, count: int) -> list[ReadAheadShare]:
    return [budget.open_share() for _ in range(count)]


async def fill(share: ReadAheadShare, byte_count: int) -> None:
    """Its reader has fetched this, and returned none of it."""
    assert await share.ask(byte_count) == byte_count
    share.hold(byte_count, has_ready=True)
    share.fetched()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# ---- the budget


async def test_a_reader_with_nothing_ready_never_waits_and_asks_for_less() -> None:
    budget = ReadAheadBudget(1000 * KIB)
    first, *others = shares_of(budget, 5)
    await fill(first, 600 * KIB)
    assert await others[0].ask(400 * KIB) == 400 * KIB, "it is left"
    others[0].fetched()
    assert await others[0].ask(500 * KIB) == 200 * KIB, "a fair share"
    assert await others[1].ask(500 * KIB) == 200 * KIB
    assert await others[2].ask(500 * KIB) == SMALLEST, "nothing is left"
    assert await others[3].ask(1 * KIB) == 1 * KIB
    assert budget.used == 1065 * KIB


async def test_those_that_wait_are_served_in_order_and_none_overtakes() -> None:
    budget, order = ReadAheadBudget(1000 * KIB), list[int]()
    full, *waiting = shares_of(budget, 4)
    for share in waiting:
        await fill(share, 100 * KIB)
    await fill(full, 700 * KIB)

    async def ask(number: int) -> None:
        await waiting[number].ask(400 * KIB)
        assert budget.used <= 1000 * KIB
        order.append(number)
        waiting[number].fetched()

    tasks = [asyncio.create_task(ask(number)) for number in (0, 1)]
    await settled()
    assert order == []
    full.hold(650 * KIB, has_ready=True)
    assert budget.free == 0, "the smallest fetch is not left, and what is left is for the first that waits"
    tasks.append(asyncio.create_task(ask(2)))
    await settled()
    full.hold(0, has_ready=False)
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]


async def test_who_waits_goes_on_as_soon_as_it_has_nothing_ready() -> None:
    """The consumer of the reader that holds all the others' bytes may never come back."""
    budget = ReadAheadBudget(1000 * KIB)
    full, first, second = shares_of(budget, 3)
    await fill(first, 100 * KIB)
    await fill(second, 100 * KIB)
    await fill(full, 800 * KIB)
    tasks = [asyncio.create_task(share.ask(400 * KIB)) for share in (first, second)]
    await settled()
    second.hold(100 * KIB, has_ready=False)
    assert await tasks[1] == SMALLEST
    assert not tasks[0].done()
    full.close()
    assert await tasks[0] == 400 * KIB


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_cancelled_reader_gives_its_place_and_its_bytes_to_the_next(is_granted: bool) -> None:
    budget = ReadAheadBudget(1000 * KIB)
    full, first, second = shares_of(budget, 3)
    await fill(first, 100 * KIB)
    await fill(second, 100 * KIB)
    await fill(full, 800 * KIB)
    tasks = [asyncio.create_task(share.ask(800 * KIB)) for share in (first, second)]
    await settled()
    if not is_granted:
        tasks[0].cancel()
    full.hold(0, has_ready=False)
    if is_granted:
        tasks[0].cancel()
    await settled()
    assert tasks[0].cancelled()
    assert await tasks[1] == 800 * KIB
    assert budget.used == 1000 * KIB
    for share in (first, second, full):
        share.close()
    assert budget.used == 0


# ---- readers

FEW = 2_000
"""Bytes of the limit: one fetch."""
SMALL = ReaderConfig(read_ahead_bytes=5_000, fetch_bytes=2_000, unavailable_timeout_s=0.0)


async def filled(log: MemoryLog, count: int = 40, *, bytes_max: int = FEW) -> None:
    """Its readers share a small limit."""
    log.read_ahead = ReadAheadBudget(bytes_max)
    log.add_ledger(3, *[(b"%04d" % number * 250,) for number in range(count)])
    await log.record(3)


async def opened(log: MemoryLog, count: int) -> list[Reader]:
    """Each has returned one message, and fetches no more until the next is wanted."""
    readers = [log.reader(UNTIL_LATEST, config=SMALL) for _ in range(count)]
    for reader in readers:
        await anext(reader)
    for _ in range(50 * count):
        await asyncio.sleep(0)
    return readers


async def close_all(readers: Sequence[Reader]) -> None:
    for reader in readers:
        await reader.close()


def test_many_slow_readers_stay_within_the_limit_and_all_is_delivered(
    request: pytest.FixtureRequest,
) -> None:
    """Each may hold 5,000 bytes, all of them 20,000: beyond it what each returns and one fetch."""

    async def scene(log: MemoryLog) -> None:
        await filled(log, bytes_max=20_000)
        readers = await opened(log, 20)
        assert log.read_ahead.used <= 20_000 + 20 * 2 * 2_000
        for reader in readers:
            assert len(await payloads(reader)) == 39
        assert log.read_ahead.used == 0
        await close_all(readers)

    play(request, scene)


def test_readers_that_share_a_full_limit_take_turns(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        await filled(log)
        idle, *readers = await opened(log, 6)
        found = await asyncio.gather(*(payloads(reader) for reader in readers))
        assert [len(each) for each in found] == [39] * 5
        assert log.read_ahead.used > 0, "of the one that returns nothing"
        assert len(await payloads(idle)) == 39
        assert log.read_ahead.used == 0

    play(request, scene)


def test_closing_readers_give_everything_back(request: pytest.FixtureRequest) -> None:
    """Also one that was dropped, and one whose opening is cancelled."""

    async def scene(log: MemoryLog) -> None:
        await filled(log)
        readers = await opened(log, 4)
        readers.pop()
        gc.collect()
        readers.append(log.reader(UNTIL_LATEST))
        opening = asyncio.create_task(readers[-1].open())
        await asyncio.sleep(0)
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        await close_all(readers)
        await poll(lambda: log.read_ahead.used == 0 and not log.read_ahead._shares)

    play(request, scene)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_failing_reader_gives_everything_back(request: pytest.FixtureRequest, is_lost: bool) -> None:
    """What it had fetched before is returned first, and counts until then."""

    async def scene(log: MemoryLog) -> None:
        await filled(log)
        [reader] = await opened(log, 1)
        if is_lost:
            log.ledgers.find(3).entries[20:] = [None] * 20
        else:
            log.ledgers.failures += [ReadError("too few bookies")] * 5
        with pytest.raises((DataLossError, ReadError)):
            await payloads(reader)
        assert log.read_ahead.used == 0

    play(request, scene)


@pytest.mark.parametrize("bytes_max", [1, 1_000_000])
async def test_what_is_read_ahead_of_later_ledgers_counts(bytes_max: int) -> None:
    """And nothing is, while the limit is used up."""
    async with scripted_log() as log, log.client(read_ahead_bytes_max=bytes_max) as client:
        async with client.open_writer("orders", create=True) as writer:
            for _ in range(30):
                await writer.append(b"x" * 1000)
                await writer.rotate()
        reader = client.reader("orders", until="latest", config=ReaderConfig(read_ahead_bytes=10_000))
        async with asyncio.timeout(GUARD_S):
            await anext(reader)
            fetcher = reader._fetcher
            assert fetcher is not None
            await poll(lambda: fetcher._ready_bytes > 5_000 if bytes_max > 1 else reader.lag.entries > 0)
            ahead = fetcher._ahead.asked_bytes
            assert (ahead > 0) == (bytes_max > 1)
            assert client._read_ahead.used >= fetcher._ready_bytes + ahead
            assert len(await payloads(reader)) == 29
        assert client._read_ahead.used == 0
