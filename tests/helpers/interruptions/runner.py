"""Plays a scene once for every callback of its victim."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from dlog.testing.cluster import SimulatedCluster, logging_into
from dlog.testing.kernel.faults import MetadataFault
from dlog.testing.kernel.nodes import context_of
from dlog.testing.kernel.seeds import Seeds
from tests.helpers.interruptions.loop import StrikingLoop
from tests.helpers.interruptions.scenarios import VICTIM, Scene
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


def blows(scene: Scene) -> tuple[str, ...]:
    """kill -9; SIGSTOP, for a program until somebody else has written; a power cut of a bookie's host.

    A program is also struck at each of its requests to the metadata store.
    """
    return ("kill", "sleep", *REQUESTS) if scene.struck == VICTIM else ("kill", "sleep", "power cut")


def play(scene: Scene, blow: str, at: int, seed: int = 1) -> tuple[bool, list[str]]:
    """Whether there was such a callback, or request, to strike at, and what was found wrong."""
    loop = StrikingLoop(Seeds(seed), at)

    async def run() -> list[str]:
        cluster = SimulatedCluster(loop)
        await cluster.start()
        return await _play(scene, blow, Stage(cluster), loop)

    try:
        with logging_into(loop):
            wrong = loop.run(run())
            return loop.struck or bool(
                blow in REQUESTS and loop.trace.counts[f"fault.{REQUESTS[blow]}"]
            ), wrong
    finally:
        loop.close()


async def _play(scene: Scene, blow: str, stage: Stage, loop: StrikingLoop) -> list[str]:
    cluster = stage.cluster
    async with stage.client() as client:
        await client.create(LOG)
    cluster.run("reader", stage.tail)
    await scene.before(stage)
    if blow in REQUESTS:
        cluster.metadata.faults.arm(REQUESTS[blow], VICTIM, number=loop.at)
    else:
        loop.watch(scene.struck, lambda: _strike(cluster, scene.struck, blow))
    victim = cluster.run(VICTIM, lambda: scene.victim(stage))
    await asyncio.gather(scene.beside(stage), asyncio.wait([victim], timeout=_SLEEPS_S))
    loop.unwatch()
    cluster.metadata.faults.disarm()
    await _over(stage.write_again("heir"), "the heir")
    await scene.after(stage)
    if cluster.process(VICTIM).alive:
        loop.resume(cluster.process(VICTIM))
        await _over(asyncio.wait([victim]), "the victim")
        victim.result()
        await _over(stage.write_again("last heir"), "the last heir")
        await scene.after(stage)
    cluster.heal()
    for bookie in cluster.bookies:
        await bookie.wait_until_serving()
    return await stage.judge()


def _strike(cluster: SimulatedCluster, name: str, blow: str) -> None:
    loop = cluster.loop
    if name == VICTIM:
        (cluster.kill if blow == "kill" else cluster.pause)(name)
        return
    bookie = next(each for each in cluster.bookies if each.name == name)
    {"kill": bookie.kill, "sleep": bookie.pause, "power cut": bookie.power_cut}[blow]()

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


def play_all(scene: Scene, blow: str, *, first: int = 1, step: int = 1) -> int:
    """Strike at every `step`-th callback; returns at how many. AssertionError names the first that went wrong."""
    struck = 0
    at = first
    while True:
        there, wrong = play(scene, blow, at)
        assert not wrong, f"at {at}: " + "\n".join(wrong)
        if not there:
            return struck
        struck += 1
        at += step
