"""Real processes, killed and paused at times that a seed decides, on links that break; then everything is checked.

    NEMESIS_SECONDS=600 NEMESIS_SEED=17 NEMESIS_METADATA=zookeeper pytest tests/nemesis

runs one seed for longer. The operating system's scheduling is not seeded, so a seed repeats the plan, not the run.
`make nemesis` runs one seed after the other.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.apache.java_libs import class_path
from tests.helpers.nemesis.run import Plan, plan_of, run

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "3"))
SEED = os.environ.get("NEMESIS_SEED")
METADATA = os.environ.get("NEMESIS_METADATA", "sqlite")

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(SECONDS + 400)]

STRIPED = Plan(2, 5, ("striped", "fast"), seconds=SECONDS)
PLANS = [
    Plan(1, 3, seconds=SECONDS),
    STRIPED,
    Plan(3, 3, metadata="zookeeper", seconds=SECONDS),
]
if SEED is not None:
    PLANS = [plan_of(int(SEED), METADATA, SECONDS)]


@pytest.mark.parametrize(
    "plan",
    [pytest.param(plan, marks=pytest.mark.nightly if plan is STRIPED else ()) for plan in PLANS],
    ids=lambda plan: f"{plan.metadata}-seed{plan.seed}",
)
async def test_nothing_acknowledged_is_lost(plan: Plan, tmp_path: Path) -> None:
    if plan.metadata == "zookeeper":
        class_path()  # skips the test where there is none
    done = await run(plan, tmp_path)
    print(done.summary())
    if done.wrong and (keep := os.environ.get("NEMESIS_KEEP")):
        save(tmp_path, Path(keep) / f"seed{plan.seed}")
    assert not done.wrong, "\n".join([f"{plan}", *done.wrong[:5], *done.steps])


def save(directory: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for path in directory.glob("*.history"):
        (keep / path.name).write_bytes(path.read_bytes())
