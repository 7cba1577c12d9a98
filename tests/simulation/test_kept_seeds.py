"""Seeds that once failed, each a file with its story; none of them may fail again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlog.testing.kept import read_kept
from dlog.testing.swarm import run_plan

KEPT = sorted((Path(__file__).parent / "kept").glob("*.toml"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_seed_that_once_failed(path: Path) -> None:
    kept = read_kept(path.read_text("utf-8"))
    assert kept.story.strip()
    report = run_plan(kept.plan)
    again = f"python -m dlog.testing --kept tests/simulation/kept/{path.name} --timeline"
    assert not report.findings, "\n".join([again, *report.findings])
