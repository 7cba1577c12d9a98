"""kill -9 at any time loses nothing acknowledged."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.bookie.storage import found_ids, open_storage
from tests.helpers.repository import ROOT


@pytest.mark.integration
def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    """The same directory is written and killed again and again, each time a little later."""
    acked = 0
    for lines in (1, 10, 40, 150, 400):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.crash.writer_process", str(tmp_path / "bookie")],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as child:
            assert child.stdout is not None
            for _ in range(lines):
                line = child.stdout.readline()
                if line.startswith("acked"):
                    acked = int(line.split()[1])
            child.kill()
            for line in child.stdout:  # what was said between the last line read and the kill
                if line.startswith("acked") and line.endswith("\n"):
                    acked = int(line.split()[1])
    asyncio.run(check(tmp_path / "bookie", acked))
    assert acked > 1000


async def check(directory: Path, acked: int) -> None:
    storage = await open_storage(directory)
    assert await found_ids(storage, 1, acked) == list(range(acked))
    state = storage.ledger(2)
    assert state is not None
    assert state.fenced
    await storage.close()
