"""Boots what a power cut may leave of a bookie's disk, at each effect of each scenario, and compares.

    python -m tests.helpers.crash.images [--each 8] [--second 10] [--single-write 1]

prints how many distinct images were booted. At each effect all images made of whole changes are taken if they are no
more than `--each`, torn ones in the room that is left. From each `--second`-th image of a storage the bookie starts
and goes on, and its power is cut once more at each effect of that.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import Effect
from dlog.testing.disk.image import DiskImage
from ledger.errors import LogStoreError
from tests.helpers.bookie.storage import COMPACTED_BELOW, SINGLE_WRITE
from tests.helpers.crash.identity_scenarios import IDENTITY_SCENARIOS, Known, boot_identity, new_known
from tests.helpers.crash.recorded_storage import LARGE, LARGE_FROM, Ledgers, RecordedStorage, check, copy_of
from tests.helpers.crash.scenarios import SCENARIOS, SETTINGS, Scenario, opened
from tests.helpers.simulation.disk import new_disk

EACH, SECOND_EVERY = 8, 10
_EACH_OF_SECOND = 4
_GOES_ON_EVERY = 4
NEXT_LEDGER, NEXT_LARGE = 50, LARGE_FROM + 50
"""Nobody speaks of it before the second life."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One image, where it comes from, how to boot it, and what tells it from others that must hold the same."""

    scenario: str
    effect: Effect
    image: DiskImage
    boot: Callable[[], Awaitable[None]]
    promised: str


@dataclass(slots=True)
class Booted:
    """What was booted, by scenario."""

    boots: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    """Distinct images among them; the same one is booted again where more had been promised."""


async def boot_all(each: int = EACH, second_every: int = SECOND_EVERY) -> Booted:
    """AssertionError or the bookie's own error, with the scenario of the image that did not boot as it must."""
    booted, images, seen = Booted(), set[bytes](), set[tuple[bytes, str]]()
    async for cut in every_cut(each, second_every):
        fingerprint = _fingerprint(cut.image)
        if (fingerprint, cut.promised) in seen:
            continue
        seen.add((fingerprint, cut.promised))
        booted.boots[cut.scenario] += 1
        booted.images[cut.scenario] += fingerprint not in images
        images.add(fingerprint)
        try:
            await cut.boot()
        except (LogStoreError, AssertionError) as error:
            error.add_note(f"{cut.scenario}: power cut before {cut.effect}; {'; '.join(cut.image.changes)}")
            raise
    return booted


async def every_cut(each: int, second_every: int) -> AsyncIterator[Cut]:
    for scenario in SCENARIOS:
        first = await _cuts_of_storage(scenario.__name__, scenario, new_disk(), {}, each)
        for number, (cut, ledgers) in enumerate(first):
            yield cut
            if number % second_every == 0:
                disk = new_disk(number, image=cut.image)
                name = f"{scenario.__name__}, then again"
                for second, _ in await _cuts_of_storage(name, go_on, disk, ledgers, _EACH_OF_SECOND):
                    yield second
    for identity_scenario in IDENTITY_SCENARIOS:
        for cut in await _cuts_of_identity(identity_scenario, each):
            yield cut


# ---- storages


async def go_on(bookie: RecordedStorage) -> None:
    """A second life: entries for an old ledger and a new one, a fence, a checkpoint."""
    await bookie.add(NEXT_LEDGER, range(3))
    await bookie.fence(NEXT_LEDGER)
    await bookie.storage.checkpoint()
    await bookie.add(NEXT_LEDGER, [3])


async def _cuts_of_storage(
    name: str, scenario: Scenario, disk: SimulatedDisk, ledgers: Ledgers, each: int
) -> list[tuple[Cut, Ledgers]]:
    recorded = copy_of(ledgers)
    choose, found = Random(name), list[tuple[Cut, Ledgers]]()

    shared: dict[bytes, bytes] = {}

    def take(effect: Effect) -> None:
        promised = copy_of(recorded)
        for image in disk.legal_images(each, choose):
            for path, content in image.files.items():  # most are as in the image before
                image.files[path] = shared.setdefault(content, content)
            boot = partial(boot_storage, image, promised, goes_on=len(found) % _GOES_ON_EVERY == 0)
            found.append((Cut(name, effect, image, boot, repr(promised)), promised))

    disk.watch_effects(take)
    await scenario(await opened(disk, recorded))
    disk.watch_effects(None)
    disk.process_crash()
    return found


async def collect_garbage(bookie: RecordedStorage) -> None:
    """Remove dead entry logs once the one that was written to at the crash is full, by what is deleted before that."""
    per_log = SETTINGS["entry_log_bytes_max"] // len(LARGE)
    for ids in (range(per_log), [per_log]):  # the second checkpoint begins the next log
        await bookie.add(NEXT_LARGE, ids)
        await bookie.storage.checkpoint()
    await bookie.delete(NEXT_LARGE)
    await bookie.storage.checkpoint()
    await bookie.storage.remove_dead_logs()
    await bookie.storage.compact(COMPACTED_BELOW)


async def boot_storage(image: DiskImage, ledgers: Ledgers, *, goes_on: bool) -> None:
    """It holds what it must, and with `goes_on` also takes more, collects garbage, and holds that after a stop."""
    disk, ledgers = new_disk(image=image), copy_of(ledgers)
    bookie = await opened(disk, ledgers)
    await check(bookie.storage, ledgers)
    if goes_on:
        await collect_garbage(bookie)
        await check(bookie.storage, ledgers)
        await bookie.add(NEXT_LEDGER + 1, range(3))
    await bookie.storage.close()
    if goes_on:
        bookie = await opened(disk, ledgers)
        await check(bookie.storage, ledgers)
        await bookie.storage.close()


# ---- identities


async def _cuts_of_identity(
    scenario: Callable[[SimulatedDisk, Known], Awaitable[None]], each: int
) -> list[Cut]:
    disk, known = new_disk(), await new_known()
    choose, found = Random(scenario.__name__), list[Cut]()

    def take(effect: Effect) -> None:
        promised = known.copy()
        for image in disk.legal_images(each, choose):
            boot = partial(boot_identity, image, promised)
            found.append(Cut(scenario.__name__, effect, image, boot, promised.describe()))

    disk.watch_effects(take)
    await scenario(disk, known)
    disk.watch_effects(None)
    disk.process_crash()
    return found


def _fingerprint(image: DiskImage) -> bytes:
    stores = sorted((path, sorted(store.records.items())) for path, store in image.stores.items())
    found = hashlib.sha256(repr((sorted(image.directories), stores)).encode())
    for path, content in sorted(image.files.items()):
        found.update(f"{path} {len(content)} ".encode())
        found.update(content)
    return found.digest()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.crash.images", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--each", type=int, default=EACH, help="images at each effect, at most")
    parser.add_argument("--second", type=int, default=SECOND_EVERY, help="every so many-th goes on")
    parser.add_argument("--single-write", type=int, default=0, help="single_write_bytes_min of the storages")
    given = parser.parse_args()
    SINGLE_WRITE.set(given.single_write)
    booted = asyncio.run(boot_all(given.each, given.second))
    for scenario in sorted(booted.boots):
        print(f"{scenario:28} {booted.boots[scenario]:6} boots {booted.images[scenario]:6} images")
    print(f"{booted.images.total()} distinct images in {booted.boots.total()} boots: nothing was lost")


if __name__ == "__main__":
    main()
