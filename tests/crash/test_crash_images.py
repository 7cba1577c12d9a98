"""Every state the disk may be in after a power cut is booted; nothing acknowledged may be missing."""

import asyncio
from pathlib import Path

from tests.crash.forgetful_disk import ForgetfulDisk
from tests.storage_kit import KEY, add, durable, fence, found_ids, open_storage

SETTINGS = {"journal_segment_bytes": 64 * 1024, "reserve_bytes": 0}


class Promises:
    """What has been acknowledged so far; grows on the loop, copied by the disk's hook."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}
        self.fenced: frozenset[int] = frozenset()
        self.deleted: frozenset[int] = frozenset()

    def copy(self) -> "Promises":
        other = Promises()
        other.entries, other.fenced, other.deleted = dict(self.entries), self.fenced, self.deleted
        return other


async def workload(directory: Path, disk: ForgetfulDisk, promises: Promises) -> None:
    """Adds to two ledgers, a roll of the journal, checkpoints, a fence, a deletion."""
    storage = await open_storage(directory, disk, **SETTINGS)
    one, two, gone = (storage.create_ledger(ledger_id, KEY) for ledger_id in (1, 2, 3))
    await add(storage, gone, range(5))
    for step in range(6):
        await add(storage, one, range(step * 60, step * 60 + 60))
        promises.entries[1] = step * 60 + 60
        await add(storage, two, [step])
        promises.entries[2] = step + 1
        if step in (1, 4):
            await storage.checkpoint()
        if step == 2:
            await fence(storage, two)
            promises.fenced = frozenset({2})
            await durable(lambda done: storage.delete_ledger(3, done))
            promises.deleted = frozenset({3})
    await storage.close()


async def check_boot(image: Path, promises: Promises, *, go_on: bool) -> None:
    storage = await open_storage(image, **SETTINGS)
    for ledger_id, count in promises.entries.items():
        found = await found_ids(storage, ledger_id, count)
        assert found == list(range(count)), f"ledger {ledger_id} lost entries"
    for ledger_id in promises.fenced:
        state = storage.ledger(ledger_id)
        assert state is not None
        assert state.fenced
    for ledger_id in promises.deleted:
        state = storage.ledger(ledger_id)
        assert state is not None
        assert state.deleted
    if go_on:
        await add(storage, storage.ledger(9) or storage.create_ledger(9, KEY), range(3))
    await storage.close()
    if go_on:
        storage = await open_storage(image, **SETTINGS)
        assert await found_ids(storage, 9, 3) == [0, 1, 2]
        await storage.close()


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
