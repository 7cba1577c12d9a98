"""The same seed is the same run, whatever the interpreter's hash seed is."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.helpers.repository import ROOT
from tests.helpers.simulation.echo_load import EchoLoad

FAULTS = (
    "reset",
    "stall",
    "half_open",
    "cut",
    "cut_one_way",
    "clog",
    "refuse",
    "isolate",
    "split",
    "pause",
    "kill",
    "power_off",
)


def test_every_fault_strikes_connections_by_the_thousand_and_no_byte_comes_back_wrong() -> None:
    load = EchoLoad(seed=1, connections_each=500)
    digest = load.run()
    counts = load.loop.trace.counts
    assert sum(load.outcomes.values()) == 2000
    assert load.outcomes["echoed"] > 500
    for fault in FAULTS:
        assert counts[f"fault.{fault}"] > 0, fault
    assert EchoLoad(seed=1, connections_each=500).run() == digest


def test_other_seeds_are_other_runs() -> None:
    assert len({EchoLoad(seed, connections_each=5).run() for seed in range(5)}) == 5


def test_pythonhashseed_does_not_matter() -> None:
    def digest(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.helpers.simulation.echo_load", "7", "50"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = digest("1")
    assert len(first.strip()) == 64
    assert digest("2") == first
    assert EchoLoad(7, 50).run() == first.strip()
