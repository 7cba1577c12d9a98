"""The same laws hold when bookies write entries once, all of them or only larger runs."""

from __future__ import annotations

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan


@pytest.mark.parametrize("profile", ["chaos", "narrow", "beyond"])
@pytest.mark.parametrize("bytes_min", [1, 600])
def test_seeds_with_entries_written_once(profile: str, bytes_min: int) -> None:
    for seed in range(1, 3):
        report = run_plan(make_plan(seed, profile, {"single_write_bytes_min": bytes_min}))
        command = f"python -m dlog.testing --seed {seed} --profile {profile} --set single_write_bytes_min={bytes_min}"
        assert not report.findings, "\n".join([command, *report.findings])
