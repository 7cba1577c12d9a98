"""The simulated event loop: asyncio's promises, time, order, and how a run ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from dlog.testing.errors import (
    DeadlockError,
    LimitReachedError,
    NotSupportedInSimulationError,
    UncaughtProblemsError,
)
from dlog.testing.kernel.limits import Limits
from tests.helpers.simulation.loop import simulate, simulation


def test_time_jumps_to_the_next_timer_and_is_not_slept() -> None:
    async def main(loop):
        before = loop.time()
        await asyncio.sleep(86_400)
        return loop.time() - before

    assert simulate(main) == pytest.approx(86_400, abs=0.001)


def test_the_running_loop_is_the_simulated_one() -> None:
    async def main(loop):
        return asyncio.get_running_loop() is loop

    assert simulate(main)


def test_callbacks_of_one_node_keep_their_order() -> None:
    async def main(loop):
        seen = []
        for number in range(100):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0.001)
        return seen

    for seed in range(20):
        assert simulate(main, seed) == list(range(100))


def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set() -> None:
    async def main(loop):
        seen = []
        for number in range(50):
            loop.call_at(loop.time() + 1 - number % 2, seen.append, number)
        await asyncio.sleep(2)
        return seen

    assert simulate(main) == [*range(1, 50, 2), *range(0, 50, 2)]


def test_a_cancelled_timer_never_fires_and_many_of_them_cost_no_memory() -> None:
    async def main(loop):
        fired = []
        for _ in range(10_000):
            loop.call_later(3600, fired.append, 1).cancel()
        await asyncio.sleep(1)
        assert len(loop._heap) < 1000
        await asyncio.sleep(7200)
        return fired

    assert simulate(main) == []


def test_which_of_two_ready_nodes_goes_first_is_chosen_by_the_seed() -> None:
    async def main(loop):
        order = []
        for name in ("a", "b", "c"):
            with loop.in_node(loop.boot(name)):
                loop.call_soon(order.append, name)
        await asyncio.sleep(0.001)
        return "".join(order)

    assert {simulate(main, seed) for seed in range(100)} == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_a_future_completed_by_another_node_wakes_its_waiter_on_the_waiters_node() -> None:
    async def main(loop):
        future, ran_on = loop.create_future(), []

        async def wait():
            await future
            ran_on.append(loop.node.name)
            await asyncio.sleep(0)
            ran_on.append(loop.node.name)

        waiter = loop.create_task_on(loop.boot("waiter"), wait())
        with loop.in_node(loop.boot("other")):
            loop.call_later(1, future.set_result, None)
        await waiter
        assert loop.node is loop.world
        return ran_on

    assert simulate(main) == ["waiter", "waiter"]


def test_a_spinning_task_does_not_stop_time() -> None:
    async def main(loop):
        async def spin():
            while True:  # noqa: ASYNC110
                await asyncio.sleep(0)

        task = loop.create_task(spin())
        await asyncio.sleep(0.01)
        task.cancel()

    simulate(main)


def test_a_deadlock_error_names_the_waiting_tasks() -> None:
    async def wait_for_ever():
        await asyncio.Event().wait()

    async def main(loop):
        await loop.create_task_on(loop.boot("bookie-1"), wait_for_ever(), name="storage")

    with pytest.raises(
        DeadlockError, match=r"bookie-1: storage in .*wait_for_ever > Event.wait \(kernel/test_loop.py:\d+\)"
    ):
        simulate(main)


def test_a_run_that_never_ends_is_given_up_at_its_limit_of_virtual_time_or_of_steps() -> None:
    async def main():
        while True:  # noqa: ASYNC110
            await asyncio.sleep(1)

    for limits in (Limits(virtual_s_max=100), Limits(steps_max=1000)):
        with (
            simulation(limits=limits) as loop,
            pytest.raises(LimitReachedError, match=r"world: task-\d+ in .*main > sleep"),
        ):
            loop.run(main())


def test_an_exception_in_a_callback_fails_the_run_and_stops_nothing() -> None:
    async def main(loop):
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(UncaughtProblemsError, match="ZeroDivisionError"):
        simulate(main)


def test_a_task_with_an_unread_exception_fails_the_run() -> None:
    async def fail():
        raise ValueError("lost")

    async def main(loop):
        loop.create_task(fail())
        await asyncio.sleep(1)

    with pytest.raises(UncaughtProblemsError, match="never retrieved"):
        simulate(main)


def test_what_leaves_the_simulation_is_refused_in_a_sentence() -> None:
    async def main(loop):
        for ask, words in (
            (lambda: asyncio.to_thread(print), "threads run outside of virtual time"),
            (lambda: asyncio.create_subprocess_exec("true"), "a simulated process is a node"),
            (lambda: loop.getaddrinfo("example.org", 80), "only create_connection and create_server"),
            (lambda: loop.create_connection(asyncio.Protocol, "127.0.0.1", 1, ssl=True), "ssl"),
        ):
            with pytest.raises(NotSupportedInSimulationError, match=words):
                await ask()
        with pytest.raises(NotSupportedInSimulationError, match="signals"):
            loop.add_signal_handler(2, print)

    simulate(main)


def test_a_closed_loop_takes_nothing() -> None:
    with simulation() as loop:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


def test_what_is_left_at_the_end_goes_away_without_a_trace(recwarn, caplog) -> None:
    """Even tasks that await in their `finally`, catch everything, or never began."""

    async def main(loop):
        async def tidy():
            try:
                await asyncio.sleep(1e6)
            finally:
                await asyncio.sleep(1)
                raise ValueError("too late")

        async def stubborn():
            for _ in range(5):
                try:
                    await asyncio.sleep(1e6)
                except BaseException:  # noqa: BLE001
                    continue

        tasks = [loop.create_task(tidy()), loop.create_task(stubborn())]
        await asyncio.sleep(1)
        loop.call_soon(loop.create_task, tidy())
        return len(tasks)

    with simulation() as loop:
        loop.run(main(loop))
        digest = loop.trace.digest()
    assert loop.trace.digest() == digest
    assert loop.problems == []
    assert not recwarn.list and not caplog.records


def test_sets_of_tasks_and_futures_are_iterated_in_the_same_order_in_every_run() -> None:
    """asyncio.wait returns sets; ordered by address they would make every run another one."""

    async def main(loop):
        tasks = [loop.create_task(asyncio.sleep(0)) for _ in range(500)]
        futures = [loop.create_future() for _ in range(500)]
        for future in futures[::2]:
            future.set_result(None)
        done, _ = await asyncio.wait([*tasks, *futures], return_when=asyncio.FIRST_COMPLETED)
        return [(tasks + futures).index(each) for each in done]

    assert simulate(main) == simulate(main)


def test_a_run_that_fails_notes_earlier_uncaught_exceptions() -> None:
    async def main(loop):
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        raise ValueError("the end")

    with pytest.raises(ValueError, match="the end") as failed:
        simulate(main)
    assert "ZeroDivisionError" in failed.value.__notes__[0]


def test_the_collector_runs_as_it_did_before_when_the_run_is_over() -> None:
    async def main(loop):
        assert not gc.isenabled()

    simulate(main)
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_an_exception_lost_in_a_cycle_fails_the_run() -> None:
    async def main(loop):
        future = loop.create_future()
        future.itself = future
        future.set_exception(ValueError("in a cycle"))

    with pytest.raises(UncaughtProblemsError, match="in a cycle"):
        simulate(main)
