"""A SQLite store whose disk is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledger.errors import MetadataUnavailableError
from ledger.metadata.drivers import open_store
from tests.helpers.metadata.drivers import on_loop
from tests.helpers.skips import NEEDS_MOUNT

pytestmark = pytest.mark.integration


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(NEEDS_MOUNT)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


@on_loop
async def test_a_change_that_met_a_full_disk_was_not_made(small_disk: Path) -> None:
    """The store can be read all the same, and is written again once there is room."""
    store = await open_store(f"sqlite:///{small_disk / 'meta.db'}")
    try:
        await store.init_cluster()
        await store.create_record("/record", b"before")
        ballast = small_disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for _ in range(2):
            with pytest.raises(MetadataUnavailableError, match=r"full: make room"):
                await store.write_record("/record", bytes(100_000), 0)
            assert (await store.read_record("/record")).value == b"before"
        ballast.unlink()
        assert await store.write_record("/record", bytes(100_000), 0) == 1
        assert (await store.read_record("/record")).value == bytes(100_000)
    finally:
        await store.close()
