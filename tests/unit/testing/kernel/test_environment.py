"""Clocks, chance and identity of simulated processes."""

from __future__ import annotations

import asyncio
import re

from dlog.testing.kernel.environment import SimulatedEnvironment
from ledger.environment import Environment
from tests.helpers.simulation.loop import simulate


def environment(loop, name="p") -> SimulatedEnvironment:
    return SimulatedEnvironment(loop.seeds, loop, loop.boot(name))


def test_identity_is_seeded_and_differs_between_nodes_and_incarnations() -> None:
    async def main(loop):
        one: Environment = environment(loop)
        other = environment(loop, "q")
        loop.kill(loop.node_named("p"))
        again = environment(loop)
        return [
            (each.token(), each.new_uuid(), each.process_id(), each.rng.random(), each.host_name())
            for each in (one, other, again)
        ]

    first, second = simulate(main, 1), simulate(main, 2)
    assert first == simulate(main, 1)
    assert (
        len(
            {value for each in first for value in each[:4]} | {value for each in second for value in each[:4]}
        )
        == 24
    )
    for token, uuid, process_id, _, _ in first:
        assert 0 <= token < 2**63 and 0 < process_id < 2**22
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uuid)
    assert [each[4] for each in first] == ["p", "q", "p"]


def test_clocks_go_with_virtual_time_and_disagree_between_hosts() -> None:
    async def main(loop):
        one, other = environment(loop), environment(loop, "q")
        before, up = one.wall_us(), one.boot_s()
        assert 0 < abs(before - other.wall_us()) < 4_000_000
        await asyncio.sleep(10)
        assert 10_000_000 <= one.wall_us() - before < 10_001_000
        assert 10 <= one.boot_s() - up < 10.001

    simulate(main)


def test_a_wall_clock_that_jumped_stays_wrong_for_the_next_incarnation_and_moves_no_other_clock() -> None:
    async def main(loop):
        one, other = environment(loop), environment(loop, "q")
        before, up, others = one.wall_us(), one.boot_s(), other.wall_us()
        one.jump_wall_clock(-3600)
        assert one.wall_us() - before == -3_600_000_000
        assert (one.boot_s(), other.wall_us()) == (up, others)
        loop.kill(loop.node_named("p"))
        again = environment(loop)
        assert again.wall_us() - before == -3_600_000_000 and again.boot_s() == up
        assert loop.trace.counts["fault.clock_jump"] == 1

    simulate(main)


def test_a_host_that_restarted_counts_its_uptime_anew() -> None:
    async def main(loop):
        environment(loop)
        loop.kill(loop.node_named("p"), host_too=True)
        again = environment(loop)
        await asyncio.sleep(5)
        return again.boot_s()

    assert 5 <= simulate(main) < 5.001


def test_a_clock_that_runs_faster_or_slower_takes_its_timers_and_all_that_it_shows_along() -> None:
    async def timed(loop) -> tuple[float, float, float]:
        """What the node's monotonic clock, its wall clock and the simulation count while it sleeps for 10 s."""
        began, wall_us, at = loop.time(), environment_of(loop).wall_us(), loop.now
        await asyncio.sleep(5)
        async with asyncio.timeout(60):
            await asyncio.sleep(5)
        return loop.time() - began, (environment_of(loop).wall_us() - wall_us) / 1e6, loop.now - at

    def environment_of(loop) -> SimulatedEnvironment:
        return SimulatedEnvironment(loop.seeds, loop, loop.node)

    async def main(loop):
        fast, slow = loop.boot("fast"), loop.boot("slow")
        loop.run_clock_at(fast, 2.0)
        loop.run_clock_at(slow, 0.5)
        took = [await loop.create_task_on(node, timed(loop)) for node in (fast, slow)]
        for local_s, wall_s, _ in took:
            assert 10 <= local_s < 10.001 and 10 <= wall_s < 10.001
        assert 5 <= took[0][2] < 5.001 and 20 <= took[1][2] < 20.001
        loop.kill(fast)
        local_s, _, simulated_s = await loop.create_task_on(loop.boot("fast"), timed(loop))
        assert 10 <= local_s < 10.001 and 5 <= simulated_s < 5.001, "the clock is the host's"

    simulate(main)


def test_a_timer_that_is_pending_when_its_clock_changes_fires_when_that_shows_its_time() -> None:
    async def sleeping(loop) -> tuple[float, float]:
        await asyncio.sleep(10)
        return loop.time(), loop.now

    async def main(loop):
        node = loop.boot("p")
        began = loop.time()
        task = loop.create_task_on(node, sleeping(loop))
        await asyncio.sleep(4)
        loop.run_clock_at(node, 0.5)
        local, now = await task
        assert 10 <= local - began < 10.001 and 16 <= now - began < 16.001

    simulate(main)
