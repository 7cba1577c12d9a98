"""The same laws hold while bookies compact their files again and again."""

from __future__ import annotations

import pytest

from bookie_server.storage.compaction.run import CompactionRun
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan

RUNS = (("chaos", 4), ("chaos", 5), ("narrow", 2), ("beyond", 2), ("beyond", 3))


@pytest.mark.parametrize("bytes_min", [0, 600])
def test_seeds_with_compactions(bytes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, moved = CompactionRun.finish, list[int]()

    def finish(run: CompactionRun) -> int:
        moved.append(honest(run))
        return moved[-1]

    monkeypatch.setattr(CompactionRun, "finish", finish)
    fields = {
        "compaction": True,
        "single_write_bytes_min": bytes_min,
        "small_disks": True,
        "shrinks": True,
        "rotation_age_s": 0.7,
        "gc_interval_s": 0.7,
        "checkpoint_s": 0.5,
        "payload_bytes_max": 500,
    }
    for profile, seed in RUNS:
        report = run_plan(make_plan(seed, profile, fields))
        given = " ".join(f"--set {name}={value}" for name, value in fields.items())
        command = f"python -m dlog.testing --seed {seed} --profile {profile} {given}"
        assert not report.findings, "\n".join([command, *report.findings])
    assert sum(moved) > 0, "no compaction has moved anything"
