"""How many seeds the simulation needs to find a planted bug."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from dlog.testing.plan import Plan
from dlog.testing.runner import make_plan
from dlog.testing.swarm import run_plan
from tests.simulation.mutations.mutation import Mutation
from tests.simulation.mutations.planting import Edit, planted


@dataclass(frozen=True, slots=True)
class Hunt:
    """What came of it."""

    mutation: Mutation
    seeds: int
    """So many were run, the one that found the bug included."""
    caught_by: int | None
    """The seed that found it."""
    finding: str
    """What the check said, in short."""
    not_counted: tuple[int, ...]
    """Seeds that fail without the bug, too."""
    seconds: float


def hunt(
    mutation: Mutation, seeds: Iterable[int], *, whole_swarm: bool = False, seconds_max: float = 1e9
) -> Hunt:
    """Run seeds with the bug planted until one fails that does not fail without it.

    `whole_swarm`: with plans as the seeds draw them, whatever the bug needs to show.
    """
    began, count = time.perf_counter(), 0
    not_counted: list[int] = []
    for seed in seeds:
        if time.perf_counter() - began > seconds_max:
            break
        count += 1
        plan = make_plan(seed, mutation.profile, {} if whole_swarm else dict(mutation.plan))
        found = _findings(plan, (*mutation.given, *mutation.edits))
        if not found:
            continue
        if _findings(plan, mutation.given):
            not_counted.append(seed)
            continue
        return Hunt(mutation, count, seed, found, tuple(not_counted), time.perf_counter() - began)
    return Hunt(mutation, count, None, "", tuple(not_counted), time.perf_counter() - began)


def _findings(plan: Plan, edits: Iterable[Edit]) -> str:
    """What the checks said of a run with these edits, in one line; empty if all was well."""
    with planted(edits):
        try:
            found = run_plan(plan).findings
        except Exception as error:  # noqa: BLE001  # a bug may show as any error at all
            return f"{type(error).__name__}: {error}".splitlines()[0]
    # That nothing goes on any more tells least of what is wrong.
    found.sort(key=lambda each: "c17_" in each)
    return found[0].splitlines()[0] if found else ""
