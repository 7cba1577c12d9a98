"""Seeds that once failed, each a file with a description; none of them may fail again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dlog.testing.failures.saved_run import read_saved_run
from dlog.testing.swarm.run import run_plan
from tests.helpers.mutations.search import run_planted
from tests.simulation.mutations.fixed_bugs import FIXED_BUGS

PROGRESS_S = 60.0
"""Who is stuck for so long stays so."""
SEEDS = 100
"""A change of anything gives a seed other luck: the next seeds of the same plan count as well."""
KEPT = sorted((Path(__file__).parent / "kept").glob("*.toml"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_seed_that_once_failed(path: Path) -> None:
    kept = read_saved_run(path.read_text("utf-8"))
    assert kept.description.strip()
    report = run_plan(kept.plan)
    again = f"python -m dlog.testing --kept tests/simulation/kept/{path.name} --timeline"
    assert not report.findings, "\n".join([again, *report.findings])


@pytest.mark.parametrize("name", FIXED_BUGS)
def test_it_fails_again_with_the_bug_that_it_found(name: str) -> None:
    [path] = [each for each in KEPT if each.stem == name]
    plan = replace(read_saved_run(path.read_text("utf-8")).plan, progress_s=PROGRESS_S)
    seeds = range(plan.seed, plan.seed + SEEDS)
    assert any(run_planted(replace(plan, seed=seed), FIXED_BUGS[name]).findings for seed in seeds)
