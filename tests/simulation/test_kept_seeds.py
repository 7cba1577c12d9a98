"""Seeds that once failed, each a file with its story; none of them may fail again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dlog.testing.runner import make_plan, replay_command
from dlog.testing.swarm import run_plan

KEPT = sorted((Path(__file__).parent / "kept").glob("*.toml"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_seed_that_once_failed(path: Path) -> None:
    kept = tomllib.loads(path.read_text("utf-8"))
    assert kept["story"].strip()
    profile = kept.get("profile", "chaos")
    overrides = {
        name: tuple(value) if isinstance(value, list) else value for name, value in kept["plan"].items()
    }
    report = run_plan(make_plan(kept["seed"], profile, overrides))
    assert not report.findings, "\n".join([replay_command(kept["seed"], profile), *report.findings])
