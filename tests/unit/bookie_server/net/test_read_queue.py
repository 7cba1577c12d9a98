"""Few reads run together, of one connection and of all, and every one gets its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from bookie_server.net.read_queue import URGENT_SLOTS, ReadQueue, ReadSlots


class Gate:
    """Reads that wait here until they are let through."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self._open: dict[str, asyncio.Event] = {}

    def read(self, name: str) -> Callable[[], Coroutine[None, None, None]]:
        async def work() -> None:
            self.running.append(name)
            self._open[name] = asyncio.Event()
            await self._open[name].wait()
            self.running.remove(name)

        return work

    async def let_through(self, name: str) -> None:
        self._open[name].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def queue(slots: ReadSlots, running_max: int = 2, may_start: Callable[[], bool] = lambda: True) -> ReadQueue:
    return ReadQueue(slots, running_max, lambda urgent: may_start(), lambda: None, lambda change: None)


def test_a_connection_runs_no_more_than_its_share() -> None:
    async def scenario() -> None:
        gate, reads = Gate(), queue(ReadSlots(10), running_max=2)
        for name in "abc":
            reads.submit(gate.read(name))
        await settle()
        assert gate.running == ["a", "b"]
        assert reads.waiting == 1
        await gate.let_through("a")
        assert gate.running == ["b", "c"]
        for name in "bc":
            await gate.let_through(name)
        assert not reads.busy

    asyncio.run(scenario())


def test_slots_go_round_between_connections() -> None:
    """One slot for all: a connection with many reads does not keep the other one out."""

    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(1)
        first, second = queue(slots), queue(slots)
        first.submit(gate.read("a1"))
        second.submit(gate.read("b1"))
        first.submit(gate.read("a2"))
        second.submit(gate.read("b2"))
        order = []
        for _ in range(4):
            await settle()
            [running] = gate.running
            order.append(running)
            await gate.let_through(running)
        assert order[:2] == ["a1", "b1"]
        assert sorted(order) == ["a1", "a2", "b1", "b2"]

    asyncio.run(scenario())


def test_reads_wait_while_answers_are_not_taken() -> None:
    async def scenario() -> None:
        gate, takes = Gate(), False
        reads = queue(ReadSlots(1), may_start=lambda: takes)
        reads.submit(gate.read("a"))
        await settle()
        assert gate.running == []
        takes = True
        reads.start_more()
        await settle()
        assert gate.running == ["a"]
        await gate.let_through("a")

    asyncio.run(scenario())


def test_a_closed_connection_gives_its_slots_back_when_its_reads_have_ended() -> None:
    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(1)
        leaving, staying = queue(slots), queue(slots)
        leaving.submit(gate.read("a1"))
        leaving.submit(gate.read("a2"))
        staying.submit(gate.read("b"))
        await settle()
        leaving.close(cancel=False)
        await settle()
        assert gate.running == ["a1"]
        await gate.let_through("a1")
        assert gate.running == ["b"]
        await gate.let_through("b")
        assert not staying.busy

    asyncio.run(scenario())


def test_reads_of_a_closed_connection_that_come_late_are_dropped() -> None:
    """A fencing read comes when its fence is durable. Peers that fence, close and come again would keep all slots."""

    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(1)
        closed, other = queue(slots), queue(slots)
        other.submit(gate.read("b1"))
        closed.close(cancel=False)
        for number in range(URGENT_SLOTS + 5):
            closed.submit(gate.read(f"late {number}"), urgent=True)
        other.submit(gate.read("b2"))
        await settle()
        assert gate.running == ["b1"]
        await gate.let_through("b1")
        assert gate.running == ["b2"]
        await gate.let_through("b2")
        assert not closed.busy
        assert not gate.running

    asyncio.run(scenario())


def test_a_bookie_that_stops_waits_for_no_read() -> None:
    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(1)
        leaving, staying = queue(slots), queue(slots)
        leaving.submit(gate.read("a"))
        staying.submit(gate.read("b"))
        await settle()
        leaving.close(cancel=True)
        await settle()
        assert gate.running[-1] == "b"
        await gate.let_through("b")

    asyncio.run(scenario())


def test_an_urgent_read_overtakes_those_of_its_own_connection_and_of_all_others() -> None:
    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(2)
        busy, taker = queue(slots), queue(slots)
        for name in ("b1", "b2", "b3"):
            busy.submit(gate.read(name))
        taker.submit(gate.read("t1"))
        taker.submit(gate.read("fence"), urgent=True)
        await settle()
        assert gate.running == ["b1", "b2", "fence"]
        busy.submit(gate.read("fence of a busy one"), urgent=True)
        await settle()
        assert gate.running[-1] == "fence of a busy one"

    asyncio.run(scenario())


def test_urgent_reads_have_so_many_slots_and_then_wait_before_all_others() -> None:
    async def scenario() -> None:
        gate, slots = Gate(), ReadSlots(1)
        queue(slots).submit(gate.read("plain"))
        for number in range(URGENT_SLOTS + 1):
            queue(slots).submit(gate.read(f"urgent {number}"), urgent=True)
        queue(slots).submit(gate.read("last"))
        await settle()
        assert gate.running == ["plain", *(f"urgent {number}" for number in range(URGENT_SLOTS))]
        await gate.let_through("urgent 0")
        assert gate.running[-1] == f"urgent {URGENT_SLOTS}"

    asyncio.run(scenario())


def test_a_slot_for_which_one_has_no_use_any_more_goes_to_the_next() -> None:
    """The first in turn may not start because its peer takes nothing: whoever waits behind it must not wait for it."""

    async def scenario() -> None:
        gate, slots, takes = Gate(), ReadSlots(1), True
        running, stuck, honest = queue(slots), queue(slots, may_start=lambda: takes), queue(slots)
        running.submit(gate.read("a"))
        stuck.submit(gate.read("b"))
        honest.submit(gate.read("c"))
        await settle()
        takes = False
        await gate.let_through("a")
        assert gate.running == ["c"]

    asyncio.run(scenario())
