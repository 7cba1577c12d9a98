"""The same laws hold when entries go in version 3 of the protocol, which has no batch read."""

from __future__ import annotations

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan

WIRE = {"wire": "v3"}


@pytest.mark.parametrize("first", [1, pytest.param(4, marks=pytest.mark.nightly)])
def test_seeds_in_version_3(first: int) -> None:
    for seed in range(first, first + 3):
        report = run_plan(make_plan(seed, "chaos", WIRE))
        command = f"python -m dlog.testing --seed {seed} --set wire=v3"
        assert not report.findings, "\n".join([command, *report.findings])
