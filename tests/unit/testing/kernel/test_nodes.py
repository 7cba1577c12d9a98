"""Processes that die and processes that stand still."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import UnavailableError
from tests.helpers.simulation.loop import simulate, simulation


def test_nothing_of_a_killed_node_runs_again() -> None:
    """No finally, no except, no done-callback, no timer: kill -9 asks nobody."""
    ran: list[str] = []

    async def process(loop):
        loop.call_later(1, ran.append, "timer")
        task = asyncio.current_task()
        task.add_done_callback(lambda _: ran.append("done callback"))
        try:
            while True:
                loop.call_soon(ran.append, "callback")
                await asyncio.sleep(0.01)
        except BaseException:
            ran.append("except")
            raise
        finally:
            ran.append("finally")

    async def main(loop):
        node = loop.boot("p")
        loop.create_task_on(node, process(loop))
        await asyncio.sleep(0.5)
        loop.kill(node)
        assert set(ran) == {"callback"}
        ran.clear()
        await asyncio.sleep(10)
        with loop.in_node(node):
            loop.call_soon(ran.append, "scheduled for the dead")
            loop.create_task(process(loop))
        await asyncio.sleep(10)

    with simulation() as loop:
        loop.run(main(loop))
        assert ran == []


def test_a_killed_node_does_not_fail_the_run_and_is_not_waited_for() -> None:
    async def process(loop):
        failed = loop.create_task(fail())
        await asyncio.sleep(1e9)
        await failed

    async def fail():
        raise ValueError

    async def main(loop):
        node = loop.boot("p")
        loop.create_task_on(node, process(loop))
        await asyncio.sleep(1)
        loop.kill(node)
        assert not any("p:" in line for line in loop.waiting())
        assert [(problem.node, repr(problem.error)) for problem in loop.failed_tasks()] == [
            ("p", "ValueError()")
        ]

    simulate(main)


def test_failed_tasks_are_listed_even_if_their_exception_was_handled_unless_it_is_an_error_of_the_tree() -> (
    None
):
    async def fail(error):
        raise error

    async def process(loop):
        for error in (KeyError("a"), ConnectionResetError(), UnavailableError("b"), KeyError("c")):
            task = loop.create_task(fail(error), name=str(error))
            await asyncio.gather(task, return_exceptions=True)
        for _ in range(200):  # finished tasks are forgotten now and then
            await asyncio.sleep(0)
            loop.create_task(asyncio.sleep(0))

    async def main(loop):
        await loop.create_task_on(loop.boot("p"), process(loop))
        assert [repr(problem.error) for problem in loop.failed_tasks()] == ["KeyError('a')", "KeyError('c')"]

    simulate(main)


def test_a_node_can_kill_itself_and_stops_where_it_awaits_next() -> None:
    ran: list[str] = []

    async def process(loop):
        loop.call_soon(ran.append, "queued")
        loop.kill(loop.node)
        ran.append("same step")
        await asyncio.sleep(0)
        ran.append("next step")

    async def main(loop):
        loop.create_task_on(loop.boot("p"), process(loop))
        await asyncio.sleep(1)
        return ran

    assert simulate(main) == ["same step"]


def test_an_exception_of_any_kind_in_a_callback_of_a_killed_node_is_dropped() -> None:
    class Crash(BaseException):
        pass

    def crash(loop):
        loop.kill(loop.node)
        raise Crash

    async def main(loop):
        with loop.in_node(loop.boot("p")):
            loop.call_soon(crash, loop)
        await asyncio.sleep(1)

    simulate(main)


def test_a_kill_may_fall_between_any_two_callbacks_that_were_ready_together() -> None:
    def run(seed):
        async def main(loop):
            ran: list[int] = []
            node = loop.boot("p")
            with loop.in_node(node):
                for number in range(4):
                    loop.call_soon(ran.append, number)
            loop.call_later(2e-6, loop.kill, node)
            await asyncio.sleep(1)
            return len(ran)

        return simulate(main, seed)

    assert {run(seed) for seed in range(300)} == {0, 1, 2, 3, 4}


def test_a_dead_name_can_start_again_and_a_living_one_cannot() -> None:
    async def main(loop):
        first = loop.boot("p")
        with pytest.raises(ValueError, match="kill it"):
            loop.boot("p")
        loop.kill(first)
        second = loop.boot("p")
        assert (second.number, second.address, second.label) == (2, first.address, "p#2")
        assert loop.node_named("p") is second

    simulate(main)


def test_a_paused_node_stands_still_and_catches_up_in_order() -> None:
    async def main(loop):
        node, seen = loop.boot("p"), []

        async def tick():
            for number in range(10):
                loop.call_later(number, lambda n=number: seen.append((n, int(loop.time() - began + 1e-9))))

        began = loop.time()
        await loop.create_task_on(node, tick())
        await asyncio.sleep(2.5)
        loop.pause(node)
        await asyncio.sleep(4)
        assert [number for number, _ in seen] == [0, 1, 2]
        loop.resume(node)
        await asyncio.sleep(10)
        return seen

    assert simulate(main) == [(0, 0), (1, 1), (2, 2), (3, 6), (4, 6), (5, 6), (6, 6), (7, 7), (8, 8), (9, 9)]


def test_a_node_paused_by_itself_and_killed_while_paused_never_runs_again() -> None:
    async def main(loop):
        ran = []

        async def process():
            loop.pause(loop.node)
            await asyncio.sleep(0)
            ran.append("on")

        node = loop.boot("p")
        loop.create_task_on(node, process())
        await asyncio.sleep(1)
        loop.kill(node)
        loop.resume(node)
        await asyncio.sleep(1)
        return ran

    assert simulate(main) == []


def test_the_world_cannot_be_killed_or_paused() -> None:
    async def main(loop):
        for fault in (loop.kill, loop.pause):
            with pytest.raises(ValueError, match="the test itself"):
                fault(loop.world)

    simulate(main)


def test_pauses_and_kills_are_counted_as_faults() -> None:
    async def main(loop):
        node = loop.boot("p")
        loop.pause(node)
        loop.pause(node)
        loop.resume(node)
        loop.kill(node)
        loop.kill(node)
        loop.kill(loop.boot("p"), host_too=True)
        return dict(loop.trace.counts)

    counts = simulate(main)
    assert (counts["fault.pause"], counts["fault.kill"], counts["fault.power_off"]) == (1, 1, 1)
