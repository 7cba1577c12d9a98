"""Runs a scenario once for every callback of its victim, and interrupts it there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from dlog.testing.cluster import SimulatedCluster, logging_into
from dlog.testing.kernel.faults import MetadataFault
from dlog.testing.kernel.nodes import context_of
from dlog.testing.kernel.seeds import Seeds
from tests.helpers.interruptions.loop import InterruptingLoop
from tests.helpers.interruptions.scenarios import VICTIM, Scenario
from tests.helpers.interruptions.stage import LOG, Stage

_SLEEPS_S = 20.0
"""Longer than any session lasts."""
_BOOKIE_IS_AWAY_S = 1.5
_OVER_S = 120.0


REQUESTS: dict[str, MetadataFault] = {
    "lost request": "metadata_request_lost",
    "lost answer": "metadata_answer_lost",
    "late request": "metadata_request_late",
    "no store": "metadata_unavailable",
}


def faults_of(scenario: Scenario) -> tuple[str, ...]:
    """kill -9; SIGSTOP, for a program until somebody else has written; a power cut of a bookie's host.

    A program is also interrupted at each of its requests to the metadata store.
    """
    return ("kill", "sleep", *REQUESTS) if scenario.interrupted == VICTIM else ("kill", "sleep", "power cut")


def run_once(scenario: Scenario, fault: str, at: int, seed: int = 1) -> tuple[bool, list[str]]:
    """Whether there was such a callback, or request, to interrupt at, and what was found wrong."""
    loop = InterruptingLoop(Seeds(seed), at)

    async def run() -> list[str]:
        cluster = SimulatedCluster(loop)
        await cluster.start()
        return await _run(scenario, fault, Stage(cluster), loop)

    try:
        with logging_into(loop):
            wrong = loop.run(run())
            return loop.interrupted or bool(
                fault in REQUESTS and loop.trace.counts[f"fault.{REQUESTS[fault]}"]
            ), wrong
    finally:
        loop.close()


async def _run(scenario: Scenario, fault: str, stage: Stage, loop: InterruptingLoop) -> list[str]:
    cluster = stage.cluster
    async with stage.client() as client:
        await client.create(LOG)
    cluster.run("reader", stage.tail)
    await scenario.before(stage)
    if fault in REQUESTS:
        cluster.metadata.faults.arm(REQUESTS[fault], VICTIM, number=loop.point)
    else:
        loop.watch(scenario.interrupted, lambda: _interrupt(cluster, scenario.interrupted, fault))
    victim = cluster.run(VICTIM, lambda: scenario.victim(stage))
    await asyncio.gather(scenario.concurrently(stage), asyncio.wait([victim], timeout=_SLEEPS_S))
    loop.unwatch()
    cluster.metadata.faults.disarm()
    await _over(stage.write_again("next"), "the next writer")
    await scenario.after(stage)
    if cluster.process(VICTIM).alive:
        loop.resume(cluster.process(VICTIM))
        await _over(asyncio.wait([victim]), "the victim")
        victim.result()
        await _over(stage.write_again("third"), "the third writer")
        await scenario.after(stage)
    cluster.heal()
    for bookie in cluster.bookies:
        await bookie.wait_until_serving()
    return await stage.judge()


def _interrupt(cluster: SimulatedCluster, name: str, fault: str) -> None:
    loop = cluster.loop
    if name == VICTIM:
        (cluster.kill if fault == "kill" else cluster.pause)(name)
        return
    bookie = next(each for each in cluster.bookies if each.name == name)
    {"kill": bookie.kill, "sleep": bookie.pause, "power cut": bookie.power_cut}[fault]()

    def come_back() -> None:
        bookie.resume()
        if not bookie.running:
            bookie.start()

    loop.call_later(_BOOKIE_IS_AWAY_S, come_back, context=context_of(loop.world))


async def _over(work: Awaitable[object], what: str) -> None:
    try:
        async with asyncio.timeout(_OVER_S):
            await work
    except TimeoutError:
        raise AssertionError(f"c17_progress: {what} does not come to an end") from None


def run_at_every_point(scenario: Scenario, fault: str, *, first: int = 1, step: int = 1) -> int:
    """Strike at every `step`-th callback; returns at how many. AssertionError names the first that went wrong."""
    interrupted = 0
    at = first
    while True:
        there, wrong = run_once(scenario, fault, at)
        assert not wrong, f"at {at}: " + "\n".join(wrong)
        if not there:
            return interrupted
        interrupted += 1
        at += step
