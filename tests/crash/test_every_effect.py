"""The storage stops before each effect it has on its disk; whatever is there at the next start, nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from dlog.testing.disk_effects import Effect
from dlog.testing.disk_image import DiskImage
from tests.crash.promises import Promises, check_boot, workload
from tests.unit.testing.kit import new_disk

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
            except Exception as error:
                error.add_note(f"stopped before {effect}; {image.story}")
                raise

    asyncio.run(boot())
