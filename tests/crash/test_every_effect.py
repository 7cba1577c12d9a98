"""The storage stops before each effect it has on its disk; whatever is there at the next start, nothing is lost."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from random import Random

import pytest

from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import Effect
from dlog.testing.disk.image import DiskImage
from ledger.errors import LogStoreError
from tests.helpers.bookie.storage import KEY, add, found_ids, open_storage
from tests.helpers.crash.simulated_crash import run_until_crash
from tests.helpers.crash.workload import SETTINGS, Promises, check_boot, check_promises, workload
from tests.helpers.simulation.disk import new_disk

pytestmark = pytest.mark.usefixtures("either_storage")

HOME = Path("/bookie")
IMAGES_EACH = 4


def images_at_each_effect(limit: int) -> list[tuple[Effect, DiskImage, Promises]]:
    """What a power cut at each effect of the workload may leave, and what had been acknowledged by then."""
    disk, promises, choose = new_disk(), Promises(), Random(1)
    found: list[tuple[Effect, DiskImage, Promises]] = []

    def take_images(effect: Effect) -> None:
        promised = promises.copy()
        found.extend((effect, image, promised) for image in disk.legal_images(limit, choose))

    disk.watch_effects(take_images)
    asyncio.run(workload(HOME, disk, promises))
    return found


def test_every_effect_has_images_that_boot_with_everything_acknowledged() -> None:
    found = images_at_each_effect(IMAGES_EACH)
    assert len({effect.number for effect, _, _ in found}) > 120
    assert {effect.kind for effect, _, _ in found} == {
        "create", "write", "allocate", "sync", "rename", "remove", "mkdir", "dirsync",
        "kv.create", "kv.write", "kv.sync",
    }  # fmt: skip

    async def boot() -> None:
        for number, (effect, image, promised) in enumerate(found):
            try:
                await check_boot(HOME, promised, go_on=number % 7 == 0, disk=new_disk(number, image=image))
            except (LogStoreError, AssertionError) as error:
                error.add_note(f"stopped before {effect}; {image.changes}")
                raise

    asyncio.run(boot())


async def live_on(disk: SimulatedDisk, promises: Promises) -> list[DiskImage]:
    """What a power cut may leave some time after the start."""
    storage = await open_storage(HOME, disk, **SETTINGS)
    await check_promises(storage, promises)
    await add(storage, storage.ledger(9) or storage.create_ledger(9, KEY), range(3))
    images = list(disk.legal_images(20))
    disk.process_crash()
    return images


async def boot(image: DiskImage, promises: Promises) -> None:
    storage = await open_storage(HOME, new_disk(image=image), **SETTINGS)
    await check_promises(storage, promises)
    assert await found_ids(storage, 9, 3) == [0, 1, 2]
    await storage.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_kill_at_every_effect_and_a_power_cut_later_lose_nothing(again: bool) -> None:
    """What a killed process had written but not synced is seen by the next one, which must not count on it.

    `again`: that one is killed as well, at some effect of its start.
    """
    for number in count(1):
        disk, promises = new_disk(number), Promises()
        disk.crash_at_effect(number)
        if not asyncio.run(run_until_crash(disk, workload(HOME, disk, promises))):
            break
        kills = [disk.effects.recent[-1]] if number > 1 else []
        if again:
            disk.crash_at_effect(disk.effects.count + Random(number).randint(1, 12))
            asyncio.run(run_until_crash(disk, open_storage(HOME, disk, **SETTINGS)))
            disk.crash_at_effect(None)
            kills.append(disk.effects.recent[-1])
        for image in asyncio.run(live_on(disk, promises)):
            try:
                asyncio.run(boot(image, promises))
            except (LogStoreError, AssertionError) as error:
                error.add_note(f"killed after {kills}; {image.changes}")
                raise
    assert number > 120
