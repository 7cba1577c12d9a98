"""What `make evidence` runs in addition to seeds, and counts in one table each.

Failures of random stories are counted; any other failure raises.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable

from tests.helpers.crash.images import boot_all
from tests.helpers.crash.stories.running import boot_stories
from tests.helpers.evidence.measurement import Rows
from tests.helpers.interruptions.runner import faults_of, run_at_every_point
from tests.helpers.interruptions.scenarios import SCENARIOS

FAILED = "failed"
"""A column; a number above zero makes the command fail."""
_STORY_BOOTS = 1_000_000
_STORIES_MAX = 100_000


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


def stories(processes: int) -> Rows:
    """Random stories, by the life of the bookie into which the power cut falls."""
    total = boot_stories(range(1, _STORIES_MAX + 1), processes, boots_max=_STORY_BOOTS)
    rows: dict[str, dict[str, int | float | str]] = {}
    for name in sorted(total.boots):
        _, life, *_ = name.split(", ")
        row = rows.setdefault(life, {"distinct images": 0, "boots": 0})
        row["distinct images"] = int(row["distinct images"]) + total.images[name]
        row["boots"] = int(row["boots"]) + total.boots[name]
    rows[f"{total.seeds:,} stories"] = {FAILED: len(total.findings)}
    for seed, finding in total.findings:
        print(f"story {seed} fails: {finding.text}", flush=True)
    return rows


TABLES: dict[str, Callable[[int], Rows]] = {
    "interruptions": crash_points,
    "images": crash_images,
    "stories": stories,
}
