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
        assert [line.split(":")[0] for line in bookie.warnings] == [
            "read-only because a disk is nearly full",
            "writable again",
        ]
    finally:
        bookie.stop()


def test_a_small_disk_of_the_journal_is_emptied_while_entries_are_written_once(
    metadata: str, small_disk: Path, tmp_path: Path
) -> None:
    """Nothing is deleted: what is more than the disk takes moves to the entry logs."""
    storage = {
        "disk_check_interval_s": 0.1,
        "disk_usage_max": 0.8,
        "disk_usage_writable": 0.7,
        "checkpoint_interval_s": 0.2,
        "minor_compaction_interval_s": 0.3,
        "single_write_bytes_min": 64 * 1024,
    }
    bookie = BookieProcess(metadata, tmp_path / "bookie", storage=storage)
    bookie.data.mkdir()
    (bookie.data / "journal").symlink_to(small_disk)
    bookie.start()
    payload, count = bytes(1 << 20), 2 * DISK_MIB
    try:
        with RawClient(bookie.port) as client:
            for each in range(count):
                while True:
                    status = add_answer(client.ask(add(1, each, payload))).status
                    if status is Status.EOK:
                        break
                    assert status is Status.EREADONLY
                    eventually(lambda: [each["state"] for each in listed_bookies(metadata)] == ["writable"])
            for each in range(count):
                assert read_answer(client.ask(read(1, each))).entry == entry(1, each, payload)
        logs = bookie.data / "ledgers" / "entry-logs"
        assert sum(path.stat().st_size for path in logs.glob("*.log")) > DISK_MIB << 20
        bookie.terminate()
        assert "compaction needs" not in bookie.errors
    finally:
        bookie.stop()
