"""How many seeds the simulation needs to find a planted bug."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import run_plan
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.planting import Edit, planted

PROGRESS_S = 60.0
"""Who is stuck for so long mostly stays so; where sound code needs longer the seed does not count."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks said of one run."""

    findings: tuple[str, ...] = ()
    """One line each; empty if all was well."""
    steps: int = 0
    """What the run cost, in steps of the simulated loop."""

    @property
    def finding(self) -> str:
        # That nothing goes on any more tells least of what is wrong.
        return min(self.findings, key=lambda each: "c17_" in each)

    @property
    def check(self) -> str:
        """The name of the check that found it; of what nobody expected, the words before the colon."""
        return next(
            (word for word in self.finding.replace(":", " ").split() if word.startswith("c") and "_" in word),
            self.finding.partition(":")[0],
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What came of it."""

    mutation: Mutation
    seeds: int
    """So many were run, the one that found the bug included."""
    plan: Plan | None = None
    """The run that found it."""
    verdict: Verdict = field(default_factory=Verdict)
    not_counted: tuple[int, ...] = ()
    """Seeds that fail without the bug, too."""
    seconds: float = 0.0


def search(mutation: Mutation, seeds: Iterable[int], *, seconds_max: float = float("inf")) -> SearchResult:
    """Run seeds with the bug planted until one fails that does not fail without it."""
    began, count = time.process_time(), 0
    not_counted: list[int] = []
    for seed in seeds:
        if time.process_time() - began > seconds_max:
            break
        count += 1
        plan = make_plan(seed, mutation.profile, {"progress_s": PROGRESS_S, **mutation.plan})
        verdict = run_planted(plan, (*mutation.given, *mutation.edits))
        if not verdict.findings:
            continue
        if run_planted(plan, mutation.given).findings:
            not_counted.append(seed)
            continue
        spent_s = time.process_time() - began
        return SearchResult(mutation, count, plan, verdict, tuple(not_counted), spent_s)
    return SearchResult(mutation, count, not_counted=tuple(not_counted), seconds=time.process_time() - began)


def run_planted(plan: Plan, edits: Iterable[Edit]) -> Verdict:
    """Run it with these bugs planted."""
    with planted(edits):
        try:
            report = run_plan(plan)
        except Exception as error:  # noqa: BLE001  # a bug may show as any error at all
            return Verdict((f"{type(error).__name__}: {error}".splitlines()[0],))
    return Verdict(tuple(each.splitlines()[0] for each in report.findings), report.steps)
