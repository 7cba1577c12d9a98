"""A start whose ledger directories fail: what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bookie_server.cookie import COOKIE_FILE
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DirectoryInUseError, DiskFailedError
from bookie_server.storage.config import StorageConfig
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import small_config
from tests.helpers.crash.identity_scenarios import WITH_MORE, Known, new_known, start
from tests.helpers.crash.scenarios import HOME
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

MORE = HOME / "more"


async def started_once(config: StorageConfig) -> tuple[SimulatedDisk, Known]:
    disk, known = new_disk(), await new_known()
    await started(disk, known, config)
    return disk, known


async def started(disk: SimulatedDisk, known: Known, config: StorageConfig) -> None:
    _, bookie = await start(disk, known, config)
    await bookie.add(len(known.ledgers) + 1, range(3))
    await bookie.storage.close()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("exists", "current/VERSION"),
        ("lock", "lock"),
        ("read_file", COOKIE_FILE),
        ("remove", "entry-logs/compaction.tmp"),
        ("sync_directory", "entry-logs"),
        ("make_directory", "entry-logs"),
    ],
)
def test_a_start_that_fails_on_a_directory_without_the_index_names_the_way_out(
    call: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first one there is none."""

    async def main() -> None:
        disk, known = await started_once(WITH_MORE)
        sound = getattr(disk, call)
        for directory, way_out in ((MORE, f"--lost-ledger-dir {MORE}"), (HOME / "ledgers", "")):

            def failing(path: Path, *, at: Path = directory / name) -> Any:
                if path == at:
                    raise DiskFailedError(f"cannot use {path}", path=path, missing=False)
                return sound(path)

            monkeypatch.setattr(disk, call, failing)
            with pytest.raises(DiskFailedError, match=f"cannot use {directory / name}") as caught:
                await start(disk, known, WITH_MORE)
            assert ("--lost-ledger-dir" in str(caught.value)) == bool(way_out)
            assert way_out in str(caught.value)
            assert caught.value.path == (MORE if way_out else directory / name)

    run_virtual(main())


def test_one_directory_under_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ledgers")
    config = small_config(tmp_path, more_ledger_directories=(tmp_path / "link",))
    disk = SystemDisk()
    with pytest.raises(
        DirectoryInUseError, match=r"link is used by another process.* under a second name\?$"
    ):
        lock_directories(disk, config)
    (tmp_path / "link").unlink()
    for each in lock_directories(disk, config):
        each.release()
