"""Seeds to run with the tests; `SIM_SEEDS=10000 SIM_FIRST_SEED=61 pytest tests/simulation` runs others."""

from __future__ import annotations

import os

from dlog.testing.runner import replay_command
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan

SEEDS = int(os.environ.get("SIM_SEEDS", "20"))
FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
AT_ONCE = 10
TWICE_EVERY = 20
"""One seed in so many is run twice: the same seed must be the same run."""

OPEN: dict[int, str] = {}
"""Seeds of the profile `chaos` that fail, and with what: faults that are found and not fixed yet."""


def starts(part: int, parts: int) -> list[int]:
    """First seeds of the groups that make up this part of all; files are what pytest spreads over cores."""
    return list(range(FIRST, FIRST + SEEDS, AT_ONCE))[part::parts]


def run_group(first: int) -> None:
    """Run the group; a failure names the command that replays it."""
    for seed in range(first, min(first + AT_ONCE, FIRST + SEEDS)):
        digest = run(seed)
        if seed % TWICE_EVERY == 0:
            assert run(seed) == digest, f"seed {seed} was not the same run twice"


def run(seed: int, profile: str = "chaos") -> str:
    report = run_plan(make_plan(seed, profile, {}))
    if profile == "chaos" and seed in OPEN:
        assert OPEN[seed] in "\n".join(report.findings), f"seed {seed} fails no more: remove it from OPEN"
        return report.digest
    assert not report.findings, "\n".join([replay_command(seed, profile), *report.findings])
    return report.digest
