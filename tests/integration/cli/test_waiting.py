"""A command that reads while no bookie responds: it reports that it waits, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import dlog
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("start", ["earliest", "1h"])
def test_an_outage_is_reported_and_its_end_too(start: str, tmp_path: Path) -> None:
    with dlog.standalone(tmp_path / "data", restart=False) as cluster:
        ours = Command(cluster.uri)
        ours("append", "orders", "--create", stdin=b"one\n").must_succeed()
        for index in range(3):
            cluster.kill(index)
        with ours.start("read", "orders", "--from", start) as read:
            assert read.stdout is not None and read.stderr is not None
            assert read.stderr.readline().startswith(b"dlog: waiting: ")
            for index in range(3):
                cluster.restart(index)
            assert read.stdout.readline().endswith(b"one\n")
            assert read.wait(timeout=30) == 0
