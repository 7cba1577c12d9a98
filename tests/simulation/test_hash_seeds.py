"""A whole run is the same under any PYTHONHASHSEED."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT

PROGRAM = (
    "from dlog.testing.swarm.drawing import make_plan; from dlog.testing.swarm.run import run_plan; "
    "print(run_plan(make_plan({seed}, 'chaos', dict(chaos_s=8.0))).digest)"
)


@pytest.mark.parametrize("seed", [11, 13])
def test_hash_order_has_no_effect(seed: int) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(seed=seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
