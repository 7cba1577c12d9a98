"""Whatever a disk does while the storage works, what it acknowledged is there at the next start."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from bookie_server.errors import DiskFailedError, DiskFullError, StorageError, TooManyFilesError
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.seeds import Seeds
from ledger.errors import LogStoreError
from tests.helpers.bookie.storage import KEY, EntryRun, add, add_run, durable, make_entry, open_storage
from tests.helpers.crash.workload import LARGE, SETTINGS, Promises, check_boot, check_promises, workload
from tests.helpers.simulation.disk import CountedNotes, new_disk, run

pytestmark = pytest.mark.usefixtures("either_storage")

HOME = Path("/bookie")
SEEDS = 60


async def live_on(disk: SimulatedDisk, promises: Promises) -> None:
    storage = await open_storage(HOME, disk, **SETTINGS)
    await check_promises(storage, promises)
    await add(storage, storage.ledger(8) or storage.create_ledger(8, KEY), range(3))
    promises.entries[8] = 3


def live_and_die(disk: SimulatedDisk, promises: Promises, *, killed: bool) -> str:
    """The workload as far as it comes, then a power cut, or a kill, a new process and a power cut."""

    async def main() -> str:
        try:
            async with asyncio.timeout(3600):
                await workload(HOME, disk, promises)
        except (DiskFailedError, DiskFullError) as error:
            return type(error).__name__
        return "whole"

    end = run(main())
    disk.faults.rates.clear()
    disk.capacity_bytes = None
    if killed:
        # What a failed sync left in memory is seen by the next process, and counts as clean.
        disk.process_crash()
        run(live_on(disk, promises))
    disk.power_cut()
    return end


@pytest.mark.parametrize("trouble", ["errors", "no room", "no descriptors"])
def test_what_was_acknowledged_in_spite_of_faults_is_there(trouble: str) -> None:
    """Errors, short and slow writes by chance; or less room than the workload needs, more or less less."""
    ends, counts = Counter[str](), Counter[str]()
    for seed in range(SEEDS):
        notes, promises = CountedNotes(), Promises()
        disk = new_disk(seed, notes, timing=DiskTiming())
        if trouble == "errors":
            disk.faults.rates |= {
                "sync_error": 0.01,
                "write_error": 0.01,
                "short_write": 0.1,
                "slow_sync": 0.02,
            }
        elif trouble == "no descriptors":
            disk.faults.rates["no_descriptor"] = Random(seed).choice((0.01, 0.05, 0.2))
        else:
            disk.capacity_bytes = Random(seed).randint(70_000, 450_000)
        ends[live_and_die(disk, promises, killed=seed % 2 == 0)] += 1
        counts += notes.counts
        try:
            run(check_boot(HOME, promises, go_on=True, disk=disk))
        except (AssertionError, LogStoreError) as error:
            error.add_note(f"seed {seed}")
            raise
    if trouble == "errors":
        assert set(ends) == {"whole", "DiskFailedError"}
        assert (
            min(counts[f"fault.{kind}"] for kind in ("sync_error", "write_error", "short_write", "slow_sync"))
            > 5
        )
    elif trouble == "no descriptors":
        assert set(ends) == {"whole", "TooManyFilesError"}
        assert counts["fault.no_descriptor"] > SEEDS / 2
    else:
        assert set(ends) == {"whole", "DiskFullError"}
        assert counts["fault.disk_full"] > SEEDS / 2


def test_a_storage_outlives_a_time_without_descriptors() -> None:
    """Nothing can be opened for a while, at any moment: adds may be refused, but nothing has failed for good.

    Afterwards it is writable again, and everything that it acknowledged is there, also after a power cut.
    """
    lacks = refusals = 0
    for seed in range(SEEDS):
        chance, notes = Random(seed), CountedNotes()
        disk = new_disk(seed, notes, timing=DiskTiming())

        async def main(disk: SimulatedDisk = disk, chance: Random = chance) -> tuple[list[int], int]:
            storage = await open_storage(HOME, disk, **SETTINGS)
            state, acked, refused = storage.create_ledger(1, KEY), list[int](), 0
            for step in range(40):
                disk.opens_files = chance.random() < 0.6
                try:
                    run = EntryRun([step], [make_entry(1, step, payload=LARGE)])
                    await durable(partial(add_run, storage, state, run))
                    acked.append(step)
                except TooManyFilesError:
                    refused += 1
                if chance.random() < 0.3:
                    with suppress(TooManyFilesError):
                        await storage.checkpoint()
                if chance.random() < 0.3:
                    await storage.check_disk()
                for each in acked[-3:]:
                    with suppress(StorageError):
                        assert await storage.read(state, each) is not None
                assert storage.failed is None, "a healthy disk was counted as failed"
            disk.opens_files = True
            await storage.check_disk()
            assert storage.shortage is None
            assert storage.writable
            await storage.checkpoint()
            await add(storage, state, range(100, 103))
            await check_entries(storage, acked)
            disk.power_cut()
            return acked, refused

        acked, refused = run(main())
        lacks += notes.counts["fault.no_descriptor"]
        refusals += refused

        async def restarted(disk: SimulatedDisk = disk, acked: list[int] = acked) -> None:
            storage = await open_storage(HOME, disk, **SETTINGS)
            await check_entries(storage, acked)
            await storage.close()

        run(restarted())
        assert disk.open_files() == 0
    assert lacks > 10 * SEEDS
    assert refusals > SEEDS


async def check_entries(storage: LedgerStorage, acked: list[int]) -> None:
    state = storage.ledger(1)
    assert state is not None
    for each in acked:
        assert await storage.read(state, each) == make_entry(1, each, payload=LARGE), each


def test_a_journal_group_left_when_the_storage_closes_after_a_failure_is_harmless() -> None:
    """A group behind the failed one comes back when there is no worker any more that could make a new file."""
    for seed in range(60):
        loop = SimulatedLoop(Seeds(seed))
        disk = new_disk(seed, timing=DiskTiming())

        async def main(disk: SimulatedDisk = disk, seed: int = seed) -> None:
            storage = await open_storage(HOME, disk, **SETTINGS)
            failed = asyncio.Event()
            storage.on_failure = lambda _: failed.set()
            state = storage.create_ledger(1, KEY)
            await add(storage, state, [0])
            adding = asyncio.create_task(keep_adding(storage, state))
            disk.faults.arm("sync_error", "journal", number=5 + seed % 20)
            await failed.wait()
            adding.cancel()
            await storage.close()
            await asyncio.sleep(60)

        try:
            loop.run(main())
        finally:
            loop.close()


@pytest.mark.parametrize("where", ["index", "entry-logs"])
def test_a_checkpoint_that_has_failed_is_not_tried_again(where: str) -> None:
    """Not now and then, not when the disk is looked at, not when somebody asks: the process is about to end."""
    disk = new_disk(1, timing=DiskTiming())
    settings = SETTINGS | {"checkpoint_interval_s": 1.0, "disk_check_interval_s": 1.0}
    if where == "entry-logs":
        settings["single_write_bytes_min"] = 0  # or there is none

    async def main() -> None:
        storage = await open_storage(HOME, disk, **settings)
        await add(storage, storage.create_ledger(1, KEY), range(20))
        disk.faults.arm("sync_error", where)
        with pytest.raises(DiskFailedError):
            await storage.checkpoint()
        before = disk.used_bytes
        await asyncio.sleep(10)
        with pytest.raises(DiskFailedError):
            await storage.checkpoint()
        assert await storage.remove_dead_logs() == 0
        assert disk.used_bytes == before
        await storage.close()

    run(main())


async def keep_adding(storage: LedgerStorage, state: StoredLedger) -> None:
    for entry_id in count(1):
        run = EntryRun([entry_id], [make_entry(1, entry_id, payload=LARGE)])
        add_run(storage, state, run, lambda _: None)
        await asyncio.sleep(0.0001)
