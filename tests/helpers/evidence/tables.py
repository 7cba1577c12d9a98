"""What `make evidence` runs in addition to seeds, and counts in one table each. A failure raises."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable

from tests.helpers.crash.images import boot_all
from tests.helpers.evidence.measurement import Rows
from tests.helpers.interruptions.runner import faults_of, run_at_every_point
from tests.helpers.interruptions.scenarios import SCENARIOS


def crash_points(processes: int) -> Rows:
    """Every scenario, interrupted at every point."""
    tasks = [(name, fault) for name, scenario in SCENARIOS.items() for fault in faults_of(scenario)]
    rows: dict[str, dict[str, int | float | str]] = {name: {} for name in SCENARIOS}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name, fault, points in pool.imap_unordered(_points, tasks):
            rows[name][fault] = points
    return rows


def _points(task: tuple[str, str]) -> tuple[str, str, int]:
    name, fault = task
    return name, fault, run_at_every_point(SCENARIOS[name], fault)


def crash_images(_processes: int) -> Rows:
    """Every image of every scenario."""
    booted = asyncio.run(boot_all())
    return {
        scenario.replace("_", " "): {
            "distinct images": booted.images[scenario],
            "boots": booted.boots[scenario],
        }
        for scenario in sorted(booted.boots)
    }


TABLES: dict[str, Callable[[int], Rows]] = {"interruptions": crash_points, "images": crash_images}
