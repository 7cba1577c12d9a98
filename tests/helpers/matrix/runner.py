"""Plays scenarios in cells and remembers what failed."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from tests.helpers.apache.bookie import ApacheBookie
from tests.helpers.apache.cluster import Bookie
from tests.helpers.matrix.cells import Cell, Stage, members_of, spares_of
from tests.helpers.matrix.kill_scenarios import KillScenario, Moment, bookie_dies, zookeeper_dies
from tests.helpers.matrix.scenarios import SCENARIOS, NotThere, Scenario

PATIENCE_S = 60.0


@dataclass
class Results:
    """How often each scenario held in each row of the table; a row is a mix, a writer and a version."""

    held: Counter[tuple[tuple[str, str, str], str]] = field(default_factory=Counter)
    played: Counter[tuple[tuple[str, str, str], str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, cell: Cell, scenario: str, error: BaseException | None) -> None:
        if isinstance(error, NotThere):
            return
        self.played[cell.row, scenario] += 1
        if error is None:
            self.held[cell.row, scenario] += 1
        else:
            story = "".join(traceback.format_exception(error))
            self.failures.append(f"{scenario} in {cell}:\n{story}")


async def play(stage: Stage, cells: Iterable[Cell], results: Results) -> None:
    """Every scenario in every cell; the cells of one scenario side by side."""
    cells = list(cells)
    for scenario in SCENARIOS:
        outcomes = await asyncio.gather(
            *(_played(stage, cell, scenario) for cell in cells), return_exceptions=True
        )
        for cell, outcome in zip(cells, outcomes, strict=True):
            results.add(cell, scenario.__name__, outcome)


async def _played(stage: Stage, cell: Cell, scenario: Scenario) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await scenario(stage.scene(cell))


async def play_death_of_a_bookie(
    stages: dict[str, Stage], cells: list[Cell], victim: Bookie, results: Results
) -> None:
    """kill -9 of this bookie in all of these cells, which are of one mix; it is left dead."""
    mix = cells[0].mix
    some = next(iter(stages.values()))
    everybody = (*members_of(some.cluster, mix), *spares_of(some.cluster, mix))

    async def kill() -> None:
        # Spares come into play only now, so that every ledger begins on the members of its mix.
        for stage in stages.values():
            stage.allow_spares(everybody)
        await asyncio.to_thread(victim.kill)

    name = f"{bookie_dies.__name__}: {kind_of(victim)}"
    await _play_kills(stages, cells, bookie_dies, name, [kill], results)


async def play_death_of_zookeeper(stages: dict[str, Stage], cells: list[Cell], results: Results) -> None:
    """kill -9, and back again."""
    cluster = next(iter(stages.values())).cluster

    async def kill() -> None:
        await asyncio.to_thread(cluster.zookeeper.kill)

    async def restart() -> None:
        await asyncio.to_thread(cluster.zookeeper.start)
        await asyncio.to_thread(cluster.wait_until_registered, cluster.bookies)

    await _play_kills(stages, cells, zookeeper_dies, zookeeper_dies.__name__, [kill, restart], results)


async def _play_kills(
    stages: dict[str, Stage],
    cells: list[Cell],
    scenario: KillScenario,
    name: str,
    actions: list[Callable[[], Awaitable[None]]],
    results: Results,
) -> None:
    moments = [Moment() for _ in actions]
    tasks = [asyncio.ensure_future(scenario(stages[cell.wire].scene(cell), moments)) for cell in cells]
    for moment, action in zip(moments, actions, strict=True):
        while moment.waiting < sum(not task.done() for task in tasks):  # noqa: ASYNC110 - many may arrive or fail
            await asyncio.sleep(0.01)
        await action()
        moment.is_over()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for cell, outcome in zip(cells, outcomes, strict=True):
        results.add(cell, name, outcome)


def kind_of(bookie: Bookie) -> str:
    return "apache" if isinstance(bookie, ApacheBookie) else "ours"
