"""The scenarios: what was there before, what the victim does, and who acts concurrently. Names are those of
docs/log-semantics.md#crash-windows.

A victim is the process `victim`, or a bookie; it is killed, put to sleep, or its host loses power.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dlog.errors import LogExistsError, LogNotFoundError
from ledger.errors import OutcomeUnknownError, OwnershipLostError, UnavailableError
from tests.helpers.interruptions.stage import LOG, Stage

Part = Callable[[Stage], Coroutine[Any, Any, None]]
VICTIM = "victim"
TROUBLE = (UnavailableError, OutcomeUnknownError, OwnershipLostError)
"""What any call may end in while a process or the store is gone."""
A_BOOKIE = "bookie-1"


async def _nothing(_: Stage) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`concurrently` runs while the victim does, `after` when it has done or slept long enough.

    `interrupted` is who is interrupted: the victim, or a bookie that serves it.
    """

    victim: Part
    before: Part = _nothing
    concurrently: Part = _nothing
    after: Part = _nothing
    interrupted: str = VICTIM


# ---- before


async def _some_messages(stage: Stage) -> None:
    async with stage.client() as client:
        writer = await stage.take_over(client, "before")
        for _ in range(3):
            await stage.append(writer, "before")
        await writer.close()


async def _a_dead_writer(stage: Stage) -> None:
    """Its last ledger is open, and some of its appends are on their way."""
    await _some_messages(stage)
    stage.cluster.run("dead", lambda: stage.write_until_lost("dead"))
    await asyncio.sleep(0.05)
    stage.cluster.kill("dead")


async def _a_live_writer(stage: Stage) -> None:
    await _some_messages(stage)
    stage.cluster.run("owner", lambda: stage.write_until_lost("owner"))
    await asyncio.sleep(0.05)


async def _a_dead_bookie(stage: Stage) -> None:
    await _a_live_writer(stage)
    stage.cluster.kill_bookie(0)


async def _several_ledgers(stage: Stage) -> None:
    await _some_messages(stage)
    await stage.cluster.run("rotating", lambda: _rotate_often(stage, "rotating", most=3))
    stage.cluster.run("owner", lambda: stage.write_until_lost("owner"))
    await asyncio.sleep(0.05)


async def _two_open_ledgers(stage: Stage) -> None:
    """The writer died between a rotation's compare-and-set and the seal: its ledgers P and N are both open."""
    await _some_messages(stage)
    stage.cluster.run("rotating", lambda: _rotate_often(stage, "rotating"))
    while True:
        await asyncio.sleep(0.0002)
        async with stage.client() as client:
            record = (await client.describe(LOG)).record
        if sum(each.seal is None for each in record.ledgers) == 2:
            break
    stage.cluster.kill("rotating")


# ---- what the victim does


async def _take_over(stage: Stage) -> None:
    await stage.write_until_lost("victim", most=2)


async def _write_and_rotate(stage: Stage) -> None:
    await _rotate_often(stage, "victim", most=2)


async def _rotate_often(stage: Stage, name: str, most: int = 1000) -> None:
    async with stage.client() as client:
        try:
            writer = await stage.take_over(client, name)
        except TROUBLE:
            return
        for _ in range(most):
            appends = [asyncio.ensure_future(stage.append(writer, name)) for _ in range(3)]
            with suppress(*TROUBLE):
                await writer.rotate()
            await asyncio.gather(*appends)
            await stage.append(writer, name)
        await writer.close()


async def _shrink(stage: Stage) -> None:
    async with stage.client() as client:
        middle = sorted(stage.recorder.seen)[len(stage.recorder.seen) // 2]
        with suppress(*TROUBLE):
            await stage.shrink_to(client, middle)
            await client.collect(LOG)


async def _delete_and_begin_anew(stage: Stage) -> None:
    """Of a second log, since the first is read at the end."""
    async with stage.client() as client:
        with suppress(*TROUBLE):
            writer = await client.open_writer("other", create=True)
            await writer.append(b"of its first life")
            await client.delete("other")
            writer = await client.open_writer("other", create=True)
            await writer.append(b"of its second life")
            await writer.close()


# ---- concurrently


async def _another_candidate(stage: Stage) -> None:
    await stage.cluster.run("candidate", lambda: stage.write_until_lost("candidate", most=3))


async def _one_who_takes_over(stage: Stage) -> None:
    await asyncio.sleep(0.03)
    await stage.cluster.run("successor", lambda: stage.write_until_lost("successor", most=3))


# ---- after it


async def _the_other_log_ends(stage: Stage) -> None:
    """Deleting it again completes; a log of that name then begins empty."""
    async with stage.client() as client:
        while True:
            try:
                with suppress(LogNotFoundError):
                    await client.delete("other")
                with suppress(LogExistsError):
                    await client.create("other")
                left = [m.payload async for m in client.reader("other", until="latest")]
                assert not left, f"a log just created holds {left}"
                await client.delete("other")
                return
            except TROUBLE:
                await asyncio.sleep(0.2)


SCENARIOS: dict[str, Scenario] = {
    "takeover of a dead writer": Scenario(before=_a_dead_writer, victim=_take_over),
    "takeover of a live writer": Scenario(before=_a_live_writer, victim=_take_over),
    "takeover with a dead bookie": Scenario(before=_a_dead_bookie, victim=_take_over),
    "takeover of two open ledgers": Scenario(before=_two_open_ledgers, victim=_take_over),
    "two takeovers at once": Scenario(
        before=_a_live_writer, victim=_take_over, concurrently=_another_candidate
    ),
    "rotation": Scenario(before=_some_messages, victim=_write_and_rotate),
    "rotation under a takeover": Scenario(
        before=_some_messages, victim=_write_and_rotate, concurrently=_one_who_takes_over
    ),
    "shrink under a live writer": Scenario(before=_several_ledgers, victim=_shrink),
    "delete and create": Scenario(
        before=_some_messages, victim=_delete_and_begin_anew, after=_the_other_log_ends
    ),
    "a bookie during a takeover": Scenario(before=_a_live_writer, victim=_take_over, interrupted=A_BOOKIE),
    "a bookie during a rotation": Scenario(
        before=_some_messages, victim=_write_and_rotate, interrupted=A_BOOKIE
    ),
    "the second bookie during a takeover": Scenario(
        before=_a_dead_bookie, victim=_take_over, interrupted=A_BOOKIE
    ),
}
