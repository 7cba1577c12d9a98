"""The result of a long run, as a file that `docs/reliability.md` shows: one row for each kind of metadata store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.helpers.evidence.sources import fingerprint
from tests.helpers.nemesis.run import Plan, Run
from tests.helpers.repository import ROOT

RESULT_PATH = ROOT / "tests" / "helpers" / "evidence" / "nemesis.json"


@dataclass(frozen=True)
class NemesisResult:
    commit: str
    day: str
    metadata: str
    seconds: float
    """Of chaos, all seeds together."""
    seeds: int
    appends: int
    acked: int
    lost: int
    takeovers: int
    whole_reads: int
    resolutions: int
    faults: dict[str, int]
    failed_seeds: tuple[int, ...] = ()
    """Seeds that some check refused, or that came to no end."""

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.seconds:g} s of chaos on {self.metadata}: {self.appends} appends, "
            f"{self.acked} acked, {self.takeovers} takeovers, {self.whole_reads} whole reads, "
            f"{self.resolutions} resolutions, {sum(self.faults.values())} faults, lost {self.lost}"
        )


def result_of(run: Run, *, commit: str, day: str) -> NemesisResult:
    return NemesisResult(
        commit=commit,
        day=day,
        metadata=run.plan.metadata,
        seconds=run.plan.seconds,
        seeds=1,
        appends=len(run.history.appends),
        acked=run.acked,
        lost=run.lost,
        takeovers=len(run.history.takeovers),
        whole_reads=len(run.history.whole_reads),
        resolutions=len(run.history.resolutions),
        faults=run.faults,
        failed_seeds=(run.plan.seed,) if run.wrong else (),
    )


def without_end(plan: Plan, *, commit: str, day: str) -> NemesisResult:
    """Of a seed that came to no end: nothing of it counts but that it failed."""
    counts = dict.fromkeys(("appends", "acked", "lost", "takeovers", "whole_reads", "resolutions"), 0)
    return NemesisResult(
        commit=commit,
        day=day,
        metadata=plan.metadata,
        seconds=0.0,
        seeds=1,
        faults={},
        failed_seeds=(plan.seed,),
        **counts,
    )


def of_current_code(metadata: str, path: Path = RESULT_PATH) -> NemesisResult | None:
    """What the file has of this metadata store, if it was run on this code."""
    for each in load_results(path):
        if each.metadata == metadata and " " not in each.commit:
            return each if fingerprint("nemesis", each.commit) == fingerprint("nemesis") else None
    return None


def total(results: Sequence[NemesisResult]) -> NemesisResult:
    """Of runs of the same code on the same kind of store; with the commit and the day of the last one."""
    faults: Counter[str] = Counter()
    for each in results:
        faults.update(each.faults)
    sums = {
        name: sum(getattr(each, name) for each in results)
        for name in (
            "seconds",
            "seeds",
            "appends",
            "acked",
            "lost",
            "takeovers",
            "whole_reads",
            "resolutions",
        )
    }
    failed = tuple(seed for each in results for seed in each.failed_seeds)
    return replace(results[-1], **sums, faults=dict(sorted(faults.items())), failed_seeds=failed)


def load_results(path: Path = RESULT_PATH) -> list[NemesisResult]:
    """Of each metadata store the last one that was saved."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text())
    return [NemesisResult(**{**row, "failed_seeds": tuple(row["failed_seeds"])}) for row in rows]


def save_result(result: NemesisResult, path: Path = RESULT_PATH) -> None:
    """In the place of the earlier result for this metadata store."""
    others = [each for each in load_results(path) if each.metadata != result.metadata]
    rows = sorted([*others, result], key=lambda each: each.metadata)
    path.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")
