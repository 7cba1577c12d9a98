"""A first start that did not come to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import Effect
from tests.helpers.bookie.storage import KEY, add, found_ids, open_storage
from tests.helpers.crash.simulated_crash import run_until_crash
from tests.helpers.simulation.disk import new_disk

HOME = Path("/bookie")


async def until_the_mark_is_named(disk: SimulatedDisk) -> None:
    """One life: entries and a checkpoint, until the power goes as some log mark is about to get its name."""

    def watch(effect: Effect) -> None:
        if effect.kind == "rename" and effect.path.name == "log-mark.tmp":
            disk.crash_at_effect(effect.number)

    async def work() -> None:
        storage = await open_storage(HOME, disk)
        await add(storage, storage.create_ledger(1, KEY), range(3))
        await storage.checkpoint()

    disk.watch_effects(watch)
    assert await run_until_crash(disk, work())
    disk.watch_effects(None)
    disk.power_cut()


def test_a_start_that_ended_before_the_first_log_mark_is_made_up_for() -> None:
    """The journal was there and the mark not; after one more life the index has seen a checkpoint."""
    disk = new_disk()

    async def main() -> list[int]:
        await until_the_mark_is_named(disk)
        storage = await open_storage(HOME, disk)
        await add(storage, storage.create_ledger(1, KEY), range(3))
        disk.process_crash()
        await until_the_mark_is_named(disk)
        storage = await open_storage(HOME, disk)
        return await found_ids(storage, 1, 5)

    assert asyncio.run(main()) == [0, 1, 2]
