"""A start whose ledger directories change, or fail, or are full: what it writes, and what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie_server.cookie import COOKIE_FILE, read_cookie
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import CookieMismatchError, DirectoryInUseError, DiskFailedError, DiskFullError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.formatting import require_identified
from bookie_server.tools.stopped_bookie import exclusively
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import small_config
from tests.helpers.crash.identity_scenarios import CONFIG, WITH_MORE, Known, new_known, start
from tests.helpers.crash.scenarios import HOME
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

MORE, OTHER = HOME / "more", HOME / "other"
WITH_BOTH = replace(CONFIG, more_ledger_directories=(MORE, OTHER))
WITHOUT_MORE = replace(CONFIG, more_ledger_directories=(OTHER,), lost_ledger_directories=(MORE,))


async def started_once(config: StorageConfig) -> tuple[SimulatedDisk, Known]:
    disk, known = new_disk(), await new_known()
    await started(disk, known, config)
    return disk, known


async def started(disk: SimulatedDisk, known: Known, config: StorageConfig) -> None:
    _, bookie = await start(disk, known, config)
    await bookie.add(len(known.ledgers) + 1, range(3))
    await bookie.storage.close()


def listed(disk: SimulatedDisk, directory: Path) -> list[str]:
    cookie = read_cookie(disk, directory)
    assert cookie is not None
    return [Path(each).name for each in cookie.ledger_dirs]


def test_a_directory_may_be_the_root_of_a_new_file_system() -> None:
    """Of ext4, which has one of its own there."""

    async def main() -> None:
        disk, known = new_disk(), await new_known()
        for each in (CONFIG.journal_directory, CONFIG.ledger_directory):
            disk.make_directory(each / "lost+found")
        require_identified(disk, CONFIG)
        await started(disk, known, CONFIG)

    run_virtual(main())


def test_a_directory_may_be_added_while_another_one_is_full() -> None:
    async def main() -> None:
        disk, known = await started_once(WITH_MORE)
        disk.full_directories.add(MORE)
        await started(disk, known, WITH_BOTH)
        assert listed(disk, MORE) == ["ledgers", "more"]
        assert listed(disk, OTHER) == listed(disk, HOME / "ledgers") == ["ledgers", "more", "other"]
        with pytest.raises(CookieMismatchError, match="lists the ledger directory /bookie/other"):
            await start(disk, known, WITH_MORE)
        disk.full_directories.clear()
        await started(disk, known, WITH_BOTH)
        assert listed(disk, MORE) == ["ledgers", "more", "other"]

    run_virtual(main())


def test_a_directory_may_be_given_up_while_another_one_is_full() -> None:
    async def main() -> None:
        disk, known = await started_once(WITH_BOTH)
        disk.full_directories.add(OTHER)
        await started(disk, known, WITHOUT_MORE)
        assert (listed(disk, HOME / "ledgers"), len(listed(disk, OTHER))) == (["ledgers", "other"], 3)
        later = replace(WITHOUT_MORE, lost_ledger_directories=())
        with pytest.raises(
            CookieMismatchError, match=r"/bookie/other lists .*: --lost-ledger-dir /bookie/more"
        ):
            await start(disk, known, later)
        disk.full_directories.clear()
        await started(disk, known, WITHOUT_MORE)
        await started(disk, known, later)

    run_virtual(main())


def test_the_reserve_is_spent_on_adding_a_directory_to_a_full_disk() -> None:
    async def main() -> None:
        disk, known = await started_once(replace(CONFIG, reserve_bytes=4096))
        reserve = StoragePaths.of(CONFIG).reserve
        assert disk.exists(reserve)
        for name in ("journal", "ledgers"):
            disk.full_directories.add(HOME / name)
        taken = disk.remove

        def remove(path: Path) -> None:
            if path == reserve:
                disk.full_directories.clear()
            taken(path)

        disk.remove = remove  # type: ignore[method-assign]
        await started(disk, known, replace(WITH_MORE, reserve_bytes=4096))
        assert listed(disk, HOME / "journal") == listed(disk, HOME / "ledgers") == ["ledgers", "more"]

    run_virtual(main())


def test_without_a_reserve_a_directory_is_not_added_to_a_full_disk() -> None:
    """What lists it in the directory with the index makes offline commands ask for it."""

    async def main() -> None:
        disk, known = await started_once(CONFIG)
        assert not disk.exists(StoragePaths.of(CONFIG).reserve)
        disk.full_directories.add(HOME / "ledgers")
        with pytest.raises(DiskFullError):
            await start(disk, known, WITH_MORE)
        disk.full_directories.clear()
        await started(disk, known, WITH_MORE)

    run_virtual(main())


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


def test_offline_commands_ask_for_each_directory_that_is_not_given_up() -> None:
    async def main() -> None:
        disk, _ = await started_once(WITH_BOTH)
        with exclusively(disk, replace(WITH_BOTH, more_ledger_directories=(OTHER, MORE)), to_change=True):
            pass
        with exclusively(disk, WITHOUT_MORE, to_change=True):
            pass
        with (
            pytest.raises(
                CookieMismatchError, match=r"lists 3 ledger directories, .* and 2 of them are given"
            ),
            exclusively(disk, replace(WITHOUT_MORE, lost_ledger_directories=())),
        ):
            pass
        swapped = replace(
            WITH_BOTH, ledger_directory=MORE, more_ledger_directories=(WITH_BOTH.ledger_directory, OTHER)
        )
        with pytest.raises(CookieMismatchError, match="has the cookie of"), exclusively(disk, swapped):
            pass

    run_virtual(main())
