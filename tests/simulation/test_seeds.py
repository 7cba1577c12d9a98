"""Seeds of the whole cluster under a swarm of faults: `SIM_SEEDS=10000 pytest -n auto tests/simulation` runs more.

A failure names the command that replays it.
"""

from __future__ import annotations

import os

import pytest

from dlog.testing.runner import make_plan, replay_command
from dlog.testing.swarm import run_plan

SEEDS = int(os.environ.get("SIM_SEEDS", "300"))
FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
AT_ONCE = 10
TWICE_EVERY = 100
"""One seed in so many is run twice: the same seed must be the same run."""


def run(seed: int, profile: str = "chaos") -> str:
    report = run_plan(make_plan(seed, profile, {}))
    assert not report.findings, "\n".join([replay_command(seed, profile), *report.findings])
    return report.digest


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, AT_ONCE))
def test_nothing_acknowledged_is_lost_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, FIRST + SEEDS)):
        digest = run(seed)
        if seed % TWICE_EVERY == 0:
            assert run(seed) == digest, f"seed {seed} was not the same run twice"


def test_nothing_goes_wrong_when_nothing_is_made_to() -> None:
    for seed in range(1, 6):
        run(seed, "calm")
