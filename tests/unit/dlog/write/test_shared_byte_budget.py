"""All writers of a client share a limit of unacknowledged bytes: it is kept, and a hung writer stops no other one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random

import pytest

from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.errors import AppendAbortedError, QueueFullError
from dlog.model import MessageId
from dlog.write.byte_budget import ByteBudget, SharedByteBudget
from dlog.write.writer import LogWriter
from ledger.config import LedgerClientConfig
from ledger.errors import LogStoreError
from ledger.model import BookieId, QuorumSizes
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import scripted_log

MIB = 1024 * 1024


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


# ---- the budget


def writers_of(shared: SharedByteBudget, count: int, *, bytes_min: int = 2) -> list[ByteBudget]:
    return [ByteBudget(10, shared, bytes_min=bytes_min) for _ in range(count)]


async def enter(budget: ByteBudget, size: int, order: list[str] | None = None, name: str = "") -> None:
    if budget.tight:
        await budget.wait(size)
    budget.take(size)
    if order is not None:
        order.append(name)


async def test_writers_take_turns_and_the_callers_of_each_keep_their_order() -> None:
    shared, order = SharedByteBudget(10), list[str]()
    full, *writers = writers_of(shared, 3)
    await enter(full, 6)
    for size in (2, 1):  # the second one shows them that the limit is reached
        for writer in writers:
            writer.take(size)
    tasks = [
        asyncio.create_task(enter(writers[which], 2, order, f"{'ab'[which]}{number}"))
        for which, number in ((0, 0), (0, 1), (0, 2), (1, 0))
    ]
    await settled()
    assert order == []
    for budget, size in ((full, 4), (full, 2), (writers[1], 2)):
        budget.give_back(size)
        await settled()
        assert shared.used <= 10 + 2
    await asyncio.gather(*tasks)
    assert order == ["a0", "b0", "a1", "a2"]


async def test_a_writer_may_always_hold_a_little() -> None:
    shared = SharedByteBudget(10)
    hung, first, second = writers_of(shared, 3)
    await enter(hung, 10)
    await enter(first, 50)
    assert first.tight
    await enter(second, 1)
    await enter(second, 1)
    waiting = asyncio.create_task(enter(second, 1))
    await settled()
    assert not waiting.done()
    second.give_back(1)
    await waiting
    assert shared.used == 62


async def test_what_is_free_again_is_noticed_by_a_writer_without_callers() -> None:
    shared = SharedByteBudget(10)
    full, writer = writers_of(shared, 2)
    await enter(full, 9)
    await enter(writer, 3)
    assert not writer.has_capacity()
    full.give_back(9)
    assert writer.has_capacity()
    await asyncio.wait_for(enter(writer, 3), GUARD_S)


async def test_callers_that_are_refused_or_cancelled_leave_their_turn_to_others() -> None:
    shared, order = SharedByteBudget(10), list[str]()
    full, first, second, third = writers_of(shared, 4)
    await enter(full, 10)
    for writer in (first, second, third):
        await enter(writer, 2)
    tasks = [asyncio.create_task(enter(writer, 5, order, "?")) for writer in (first, second)]
    tasks.append(asyncio.create_task(enter(third, 1, order, "third")))
    await settled()
    first.refuse_all(AppendAbortedError("closed", log="orders"))
    tasks[0].cancel()  # refused, and cancelled before it could run
    tasks[1].cancel()
    full.give_back(10)
    await tasks[2]
    assert order == ["third"]
    assert (shared.used, shared.promised) == (7, 0)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost_and_none_waits_while_there_is_capacity(seed: int) -> None:
    """Callers of some writers enter, give back, are cancelled and refused at random; the others all get in."""
    rng, shared = Random(seed), SharedByteBudget(30)
    writers = writers_of(shared, 5, bytes_min=rng.choice((1, 2, 8)))
    entered: list[tuple[ByteBudget, int]] = []
    tasks: list[asyncio.Task[None]] = []

    async def call(writer: ByteBudget, size: int) -> None:
        if writer.tight:
            await writer.wait(size)
        if rng.random() < 0.9:
            writer.take(size)
            entered.append((writer, size))

    for _ in range(400):
        roll = rng.random()
        if roll < 0.5:
            tasks.append(asyncio.create_task(call(rng.choice(writers), rng.randint(1, 12))))
        elif roll < 0.6:
            rng.choice(tasks or [asyncio.create_task(settled())]).cancel()
        elif roll < 0.61:
            rng.choice(writers).refuse_all(AppendAbortedError("closed", log="orders"))
        elif entered:
            writer, size = entered.pop(rng.randrange(len(entered)))
            writer.give_back(size)
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        assert shared.used == sum(writer.used for writer in writers)
        assert shared.used <= 30 + 5 * 2 * 12
    while entered or not all(task.done() for task in tasks):
        await settled()
        assert entered or all(task.done() for task in tasks), "a caller waits, and no byte is in use"
        while entered:
            writer, size = entered.pop()
            writer.give_back(size)
    assert (shared.used, shared.promised, shared.is_full) == (0, 0, False)
    assert all(writer.has_capacity() for writer in writers)
    for task in tasks:
        with suppress(asyncio.CancelledError, AppendAbortedError):
            task.result()


# ---- writers

BATCH, LIMIT, PAYLOAD = 4_000, 200_000, b"x" * 1_000
SMALL = BatchLimits(batch_bytes=BATCH, entry_bytes_max=8_000)
PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0)
ONE = QuorumSizes(ensemble=1, write=1, ack=1)


def budget_of(client: LogClient) -> SharedByteBudget:
    return client._opening._budget


async def open_writers(client: LogClient, count: int) -> list[LogWriter]:
    return [await client.open_writer(f"log-{number}", create=True) for number in range(count)]


async def submit_all(writer: LogWriter, count: int) -> list[asyncio.Future[MessageId]]:
    """Errors of those whose futures the caller never gets count as read."""
    found: list[asyncio.Future[MessageId]] = []
    for _ in range(count):
        found.append(await writer.submit(PAYLOAD))
        found[-1].add_done_callback(lambda future: future.cancelled() or future.exception())
    return found


async def stopped(writers: Iterable[LogWriter]) -> int:
    """The bytes that they hold once they accept no more."""
    before, held = -1, 0
    while before != held:
        before = held
        await asyncio.sleep(0.02)
        held = sum(writer.buffered_bytes for writer in writers)
    return held


async def test_many_writers_before_silent_bookies_stay_within_the_limit() -> None:
    async with (
        scripted_log() as log,
        log.client(batching=SMALL, ledger=PATIENT, unacknowledged_bytes_max=LIMIT) as client,
    ):
        writers = await open_writers(client, 20)
        for bookie in log.bookies:
            bookie.be_silent()
        tasks = [asyncio.create_task(submit_all(writer, 60)) for writer in writers]
        assert LIMIT // 2 < await stopped(writers) <= LIMIT + 20 * 2 * (BATCH + 2 * len(PAYLOAD))
        full = next(writer for writer, task in zip(writers, tasks, strict=True) if not task.done())
        with pytest.raises(
            QueueFullError, match=r"all writers of the client hold .* raise unacknowledged_bytes"
        ):
            full.submit_nowait(PAYLOAD)
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            for task in tasks:
                await asyncio.gather(*await task)
        assert (budget_of(client).used, budget_of(client).is_full) == (0, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 256 * MIB),
        ({"buffer_bytes_max": 1024 * MIB}, 1024 * MIB),
        ({"buffer_bytes_max": 1024 * MIB, "unacknowledged_bytes_max": 300 * MIB}, 300 * MIB),
        ({"buffer_bytes_max": 4 * MIB}, 256 * MIB),
    ],
)
async def test_the_limit_of_all_writers_lets_one_fill_its_buffer_unless_it_is_set(
    given: dict[str, int], expected: int
) -> None:
    async with scripted_log() as log, log.client(**given) as client:
        await open_writers(client, 1)
        assert budget_of(client).bytes_max == expected


async def test_writers_whose_bookies_hang_do_not_stop_others() -> None:
    settings = {"batching": SMALL, "ledger": PATIENT, "unacknowledged_bytes_max": 20_000, "quorum": ONE}
    async with scripted_log(2) as log, log.client(**settings) as client:
        by_bookie: dict[BookieId, list[LogWriter]] = {}
        for writer in await open_writers(client, 12):
            found = await log.cluster.store.read_ledger(writer.record.ledger_ids[-1])
            by_bookie.setdefault(found.value.fragments[0].ensemble[0], []).append(writer)
        (hanging, hung), (_, healthy) = by_bookie.items()
        for bookie in log.bookies:
            if bookie.bookie_id == hanging:
                bookie.be_silent()
        stuck = [asyncio.create_task(submit_all(writer, 100)) for writer in hung]
        await stopped(hung)
        assert budget_of(client).used >= 20_000
        async with asyncio.timeout(GUARD_S):
            for futures in await asyncio.gather(*(submit_all(writer, 100) for writer in healthy)):
                await asyncio.gather(*futures)
        for writer in hung:
            writer.abort()
        for outcome in await asyncio.gather(*stuck, return_exceptions=True):
            assert isinstance(outcome, LogStoreError)
        assert budget_of(client).used == 0
        assert budget_of(client).writers == len(healthy)


@pytest.mark.parametrize("end", ["abort", "close", "cancel"])
async def test_a_writer_that_ends_gives_its_bytes_to_the_others(end: str) -> None:
    settings = {"batching": SMALL, "ledger": PATIENT, "unacknowledged_bytes_max": 20_000}
    async with scripted_log() as log, log.client(**settings) as client:
        first, second = await open_writers(client, 2)
        for bookie in log.bookies:
            bookie.be_silent()
        tasks = [asyncio.create_task(submit_all(writer, 40)) for writer in (first, second)]
        await stopped((first, second))
        before = second.buffered_bytes
        if end == "abort":
            first.abort()
        elif end == "close":
            with suppress(LogStoreError):
                await first.close(timeout_s=0.05)
        else:
            tasks[0].cancel()
        outcome = (await asyncio.gather(tasks[0], return_exceptions=True))[0]
        assert isinstance(outcome, LogStoreError | asyncio.CancelledError)
        if end != "cancel":
            await stopped((second,))
            assert second.buffered_bytes > before
            assert first.buffered_bytes == 0
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*await tasks[1])
            if end == "cancel":
                await first.flush()
        assert budget_of(client).used == 0
