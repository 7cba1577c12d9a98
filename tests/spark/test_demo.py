"""The demonstration as a user runs it, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.spark import QUICK_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(240)]


def test_the_demonstration_prints_each_step_and_leaves_nothing(tmp_path: Path) -> None:
    """Killed bookie, takeover on two bookies, typed error, proof against the file, Spark killed, its means: exit 0."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "dlog.cli.main", "demo"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "JDK_JAVA_OPTIONS": QUICK_JAVA,
        },
        timeout=220,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for part in (
        "kill -9",
        ", then WriterDeposedError",
        "on the two bookies that are up",
        "read back 1:0:0 to",
        "27,004 flights, none missing, duplicated or out of order",
        "the following reader got all 27,004 flights in order",
        "Spark follows log 'flights-live'",
        "kill -9: Spark",
        "appended all 27,004 flights, with a takeover",
        "mean departure delays of 16 carriers equal those of the file",
        "log 'flights-delays' has each of 27,004 delays once and in order",
    ):
        assert part in done.stdout
    killed = re.search(r"kill -9: Spark, when ([\d,]+) delays were readable", done.stdout)
    assert killed is not None and int(killed[1].replace(",", "")) >= 3_000
    rotations = re.search(r"ledgers from 2 takeovers and (\d+) rotations", done.stdout)
    assert rotations is not None and int(rotations[1]) >= 5
    assert not list(temporary.glob("dlog-*"))
