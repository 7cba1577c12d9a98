"""Every state the disk may be in after a power cut is booted; nothing acknowledged may be missing."""

import asyncio
from pathlib import Path

import pytest

from tests.helpers.crash.forgetful_disk import ForgetfulDisk
from tests.helpers.crash.workload import Promises, check_boot, workload

pytestmark = pytest.mark.usefixtures("either_storage")


def test_every_image_after_a_power_cut_boots_with_everything_acknowledged(tmp_path: Path) -> None:
    """Images are taken before and after each sync and removal: unsynced bytes lost, or half of them there."""
    source, images = tmp_path / "bookie", list[tuple[Path, Promises]]()
    promises = Promises()
    disk = ForgetfulDisk()

    def take_image(kind: str, _path: Path) -> None:
        number = len(images)
        image = disk.image(
            source,
            tmp_path / f"image-{number}",
            torn=(0.0, 0.5, 0.9)[number % 3],
            removed_names_stay=number % 2 == 0,
        )
        images.append((image, promises.copy()))

    disk.hook = take_image
    asyncio.run(workload(source, disk, promises))
    assert len(images) > 60
    for number, (image, promised) in enumerate(images):
        asyncio.run(check_boot(image, promised, go_on=number % 5 == 0))
