"""Backpressure by bytes: nobody overtakes, nobody is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from dlog.errors import AppendAbortedError
from dlog.write.byte_budget import ByteBudget, SharedByteBudget


def alone(bytes_max: int) -> ByteBudget:
    """The only writer of its client."""
    return ByteBudget(bytes_max, SharedByteBudget(1 << 40), bytes_min=1)


async def entrant(room: ByteBudget, name: str, size: int, order: list[str]) -> None:
    if room.tight:
        await room.wait(size)
    room.take(size)
    order.append(name)


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_newcomers_queue_after_the_waiting_and_the_just_woken() -> None:
    room, order = alone(10), list[str]()
    await entrant(room, "first", 10, order)
    tasks = [asyncio.create_task(entrant(room, name, 4, order)) for name in "abcde"]
    await settled()
    assert order == ["first"]
    room.give_back(10)
    late = asyncio.create_task(entrant(room, "late", 1, order))
    await settled()
    assert order == ["first", "a", "b", "c", "d"]
    room.give_back(16)
    await asyncio.gather(*tasks, late)
    assert order == ["first", "a", "b", "c", "d", "e", "late"]
    assert not room.tight


async def test_a_newcomer_queues_after_a_woken_caller_that_has_not_run() -> None:
    """Also if no other caller waits, and there is capacity for both."""
    room, order = alone(10), list[str]()
    await entrant(room, "first", 10, order)
    woken = asyncio.create_task(entrant(room, "woken", 4, order))
    await settled()
    late = asyncio.create_task(entrant(room, "late", 1, order))  # it runs before the woken one
    room.give_back(10)
    await asyncio.gather(woken, late)
    assert order == ["first", "woken", "late"]
    room.give_back(5)
    assert (room.used, room.tight) == (0, False)


async def test_an_entry_larger_than_the_whole_room_enters_an_empty_one() -> None:
    room, order = alone(10), list[str]()
    await entrant(room, "huge", 50, order)
    waiting = asyncio.create_task(entrant(room, "next", 50, order))
    await settled()
    assert order == ["huge"]
    room.give_back(50)
    await waiting
    assert order == ["huge", "next"]


async def test_a_cancelled_waiter_gives_its_place_to_the_next() -> None:
    room, order = alone(10), list[str]()
    await entrant(room, "first", 10, order)
    waiting = asyncio.create_task(entrant(room, "waiting", 4, order))
    woken = asyncio.create_task(entrant(room, "woken", 4, order))
    behind = asyncio.create_task(entrant(room, "behind", 4, order))
    await settled()
    waiting.cancel()
    await settled()
    room.give_back(10)
    woken.cancel()  # woken, and cancelled before it could run
    await settled()
    assert order == ["first", "behind"]
    assert woken.cancelled()
    await behind
    room.give_back(4)
    assert (room.used, room.tight) == (0, False)


async def test_newcomers_queue_after_a_cancelled_waiter_that_has_not_run() -> None:
    """It has yet to note that what it was to append is missing, before anything that comes later."""
    room, order = alone(10), list[str]()
    await entrant(room, "first", 10, order)

    async def notes() -> None:
        try:
            await entrant(room, "cancelled", 4, order)
        except asyncio.CancelledError:
            order.append("noted")

    waiting = asyncio.create_task(notes())
    await settled()
    late = asyncio.create_task(entrant(room, "late", 4, order))  # it runs before the cancelled one
    waiting.cancel()
    room.give_back(10)
    await asyncio.gather(waiting, late)
    assert order == ["first", "noted", "late"]
    room.give_back(4)
    assert (room.used, room.tight) == (0, False)


async def test_a_woken_entrant_that_takes_nothing_lets_the_next_one_in() -> None:
    """Its message turned out too large, say."""
    room, order = alone(10), list[str]()
    await entrant(room, "first", 10, order)

    async def takes_nothing() -> None:
        await room.wait(10)

    idle = asyncio.create_task(takes_nothing())
    behind = asyncio.create_task(entrant(room, "behind", 4, order))
    await settled()
    room.give_back(10)
    await asyncio.gather(idle, behind)
    assert order == ["first", "behind"]


async def test_a_closed_budget_refuses_waiting_callers() -> None:
    room = alone(10)
    room.take(10)
    waiting = asyncio.create_task(entrant(room, "waiting", 4, []))
    await settled()
    room.refuse_all(AppendAbortedError("closed", log="orders"))
    with pytest.raises(AppendAbortedError) as caught:
        await waiting
    assert caught.value.log == "orders"
