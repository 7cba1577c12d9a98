"""A power cut brings back an entry log that was removed, while another ledger directory has a newer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.errors import BlockDamagedError, DiskFullError
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import KEY, add, found_ids, open_storage
from tests.helpers.crash.stories.planted_bugs import STORAGE_BUGS
from tests.helpers.mutations.planting import planted
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

HOME = Path("/bookie")
FIRST, MORE = HOME / "ledgers" / "entry-logs", HOME / "more" / "entry-logs"


async def _stored(*, restarted: bool) -> SimulatedDisk:
    """The first directory was full when it got an entry log, which was removed; the other one has that with the
    entries. In between the process was killed, if it was `restarted`.
    """
    disk = new_disk()
    disk.full_directories.update({FIRST, MORE} if restarted else {FIRST})
    storage = await open_storage(HOME, disk, more_ledger_directories=(MORE.parent,))
    free_space = disk.free_space
    disk.free_space = lambda _: (1 << 40, 1 << 39)  # type: ignore[method-assign]  # it fills up afterwards
    state = storage.create_ledger(1, KEY)
    await add(storage, state, range(3))
    if restarted:
        with pytest.raises(DiskFullError):
            await storage.checkpoint()
        assert disk.list(FIRST) == disk.list(MORE) == []
        disk.process_crash()
        disk.full_directories.clear()
        storage = await open_storage(HOME, disk, more_ledger_directories=(MORE.parent,))
        storage._parts.directories._turn = 1
    await storage.checkpoint()
    disk.free_space = free_space  # type: ignore[method-assign]
    assert (disk.list(FIRST), len(disk.list(MORE))) == ([], 1)
    return disk


async def _boot_all(disk: SimulatedDisk) -> int:
    images = list(disk.legal_images(1000))
    for image in images:
        storage = await open_storage(HOME, new_disk(image=image), more_ledger_directories=(MORE.parent,))
        assert await found_ids(storage, 1, 3) == [0, 1, 2]
        await storage.close()
    return len(images)


@pytest.mark.parametrize("restarted", [False, True])
def test_no_power_cut_hides_an_entry_log_behind_one_that_was_removed(restarted: bool) -> None:
    async def main() -> None:
        assert await _boot_all(await _stored(restarted=restarted))

    run_virtual(main())


@pytest.mark.parametrize(
    ("bug", "restarted"),
    [("id-of-an-entry-log-given-twice", False), ("removed-entry-log-not-durable-at-a-start", True)],
)
def test_a_planted_bug_is_found(bug: str, restarted: bool) -> None:
    async def main() -> None:
        with planted(STORAGE_BUGS[bug].edits):
            disk = await _stored(restarted=restarted)
        with pytest.raises(BlockDamagedError):
            await _boot_all(disk)

    run_virtual(main())
