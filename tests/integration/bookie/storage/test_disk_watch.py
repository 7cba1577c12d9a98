"""A disk fills up and empties again under a running bookie."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, eventually, listed_bookies
from tests.helpers.skips import NEEDS_MOUNT

pytestmark = pytest.mark.integration

DISK_MIB = 96


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(NEEDS_MOUNT)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def test_the_bookie_turns_read_only_and_back(metadata: str, small_disk: Path) -> None:
    storage = {"disk_check_interval_s": 0.1, "disk_usage_max": 0.8, "disk_usage_writable": 0.7}
    bookie = BookieProcess(metadata, small_disk / "bookie", storage=storage)
    bookie.start()
    ballast = small_disk / "ballast"

    def states() -> list[str]:
        return [each["state"] for each in listed_bookies(metadata)]

    try:
        with RawClient(bookie.port) as client:
            assert add_answer(client.ask(add(1, 0))).status is Status.EOK
            ballast.write_bytes(bytes(60 << 20))
            eventually(lambda: states() == ["read-only"])
            assert add_answer(client.ask(add(1, 1))).status is Status.EREADONLY
            assert read_answer(client.ask(read(1, 0))).entry == entry(1, 0)
            ballast.unlink()
            eventually(lambda: states() == ["writable"])
            assert add_answer(client.ask(add(1, 1))).status is Status.EOK
        bookie.terminate()
        assert [line.split(":")[0] for line in bookie.errors.splitlines()] == [
            "read-only because a disk is nearly full",
            "writable again",
        ]
    finally:
        bookie.stop()
