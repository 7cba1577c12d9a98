"""Plays scenarios in cells and remembers what failed."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.interop.matrix.cells import Cell, Stage
from tests.interop.matrix.scenarios import SCENARIOS, Scenario

PATIENCE_S = 60.0


@dataclass
class Results:
    """How often each scenario held in each row of the table; a row is a mix, a writer and a version."""

    held: Counter[tuple[tuple[str, str, str], str]] = field(default_factory=Counter)
    played: Counter[tuple[tuple[str, str, str], str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, cell: Cell, scenario: str, error: BaseException | None) -> None:
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
