"""Whatever was answered with success around a full disk is there after the process is killed.

The worker of the journal may write what it was given while the loop is still within one call, as a thread may. So
what one call queues in two steps falls into two groups: the first meets the full disk, the second does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from bookie_server.errors import DiskFullError, EntryConflictError
from bookie_server.journal.files import NEXT_FILE_BYTES
from bookie_server.journal.record import FILE_HEADER_BYTES, RECORD_HEADER_BYTES
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import KEY, EntryRun, add_run, durable, make_entry, open_storage
from tests.helpers.crash.recorded_storage import Ledgers, RecordedStorage, check
from tests.helpers.crash.scenarios import HOME
from tests.helpers.simulation.disk import new_disk, run

pytestmark = pytest.mark.usefixtures("either_storage")

SEGMENT_BYTES = 64 * 1024
SETTINGS: dict[str, object] = {
    "journal_segment_bytes": SEGMENT_BYTES,
    "entry_log_bytes_max": 64 * 1024,
    "write_cache_bytes_max": 1024 * 1024,
    "reserve_bytes": 0,
}
PROMPT = DiskTiming(prompt=0.7, sync_s=(1e-3, 1e-3))
"""Too slow for jobs on the loop itself."""
SMALL, LARGE, DELETED = range(1, 8), range(100, 106), (7, 105)


def _draw(bookie: RecordedStorage, choose: Random) -> Awaitable[None]:
    """As a service does, which asks nothing more of a ledger once its deletion has begun."""
    alive = [each for each in (SMALL if choose.random() < 0.5 else LARGE) if each not in _dying(bookie)]
    ledger_id = choose.choice(alive)
    first = choose.randrange(12)
    match choose.randrange(16):
        case 0 | 1:
            return bookie.fence(ledger_id)
        case 2 | 3:
            return bookie.set_lac(ledger_id, first)
        case 4:
            return bookie.delete(choose.choice(DELETED))
        case _:
            return bookie.add(ledger_id, choose.sample(range(first, first + 6), 3))


def _dying(bookie: RecordedStorage) -> set[int]:
    return {ledger_id for ledger_id, asked in bookie.ledgers.items() if asked.deletion}


async def _live(disk: SimulatedDisk, ledgers: Ledgers, choose: Random) -> int:
    """Operations at the same time, on a disk that fills up and gets space again; how many it refused."""
    bookie = RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)
    refused = 0
    for _ in range(30):
        if choose.random() < 0.4:
            disk.capacity_bytes = disk.used_bytes + choose.choice((0, 0, 70 * 1024))
        elif choose.random() < 0.2:
            disk.capacity_bytes = None
            await bookie.storage.check_disk()
        outcomes = await asyncio.gather(
            *(_draw(bookie, choose) for _ in range(choose.randint(1, 6))), return_exceptions=True
        )
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, (DiskFullError, EntryConflictError)), outcome
            refused += outcome is not None
        assert bookie.storage.failed is None
    disk.process_crash()
    return refused


@pytest.mark.parametrize("seed", range(40))
def test_what_was_answered_on_a_full_disk_survives_the_process(seed: int) -> None:
    choose, ledgers = Random(seed), Ledgers()
    disk = new_disk(seed, timing=PROMPT)
    assert run(_live(disk, ledgers, choose)), "the disk was never full"
    disk.capacity_bytes = None

    async def restarted() -> None:
        storage = await open_storage(HOME, disk, **SETTINGS)
        await check(storage, ledgers)
        await storage.close()

    run(restarted())


@pytest.mark.parametrize("room", range(36, 72, 4))
def test_a_fence_is_not_durable_without_its_ledgers_key(room: int) -> None:
    """The key's record does not fit into the journal's last file any more, the shorter one of the fence does.

    The sizes are those of entries that are written twice.
    """
    settings = SETTINGS | {"single_write_bytes_min": 0}
    ledgers, disk = Ledgers(), new_disk(timing=replace(PROMPT, prompt=1.0))
    fenced = []

    async def main() -> None:
        bookie = RecordedStorage(await open_storage(HOME, disk, **settings), ledgers)
        disk.capacity_bytes = disk.used_bytes
        state = bookie.storage.create_ledger(1, KEY)
        empty = RECORD_HEADER_BYTES + 8 + len(make_entry(1, 0, payload=b""))
        left = SEGMENT_BYTES - FILE_HEADER_BYTES - NEXT_FILE_BYTES - empty - room
        for entry_id, payload_bytes in enumerate((SEGMENT_BYTES - 4096, left)):  # one for each file there is
            run = EntryRun([entry_id], [make_entry(1, entry_id, payload=bytes(payload_bytes))])
            await durable(partial(add_run, bookie.storage, state, run))
        for _ in range(2):
            try:
                await bookie.fence(2)
            except DiskFullError:
                continue
            fenced.append(2)
        disk.process_crash()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk, **SETTINGS)
        state = storage.ledger(2)
        assert (state is not None) >= bool(fenced)
        assert state is None or state.master_key == KEY, "fenced, and nobody's key opens it"
        await storage.close()

    run(main())
    disk.capacity_bytes = None
    run(restarted())


def test_what_the_journal_refused_is_journaled_when_it_is_added_again() -> None:
    """The entry is in the write cache, its record nowhere, whatever an earlier checkpoint has stored."""
    disk = new_disk(timing=replace(PROMPT, prompt=1.0))

    async def main() -> None:
        storage = await open_storage(HOME, disk, **SETTINGS)
        state = storage.create_ledger(1, KEY)
        await durable(partial(add_run, storage, state, EntryRun([0], [make_entry(1, 0)])))
        await storage.checkpoint()
        disk.capacity_bytes = disk.used_bytes
        large = [make_entry(1, entry_id, payload=bytes(SEGMENT_BYTES // 2)) for entry_id in range(1, 9)]
        refused = []
        for entry_id, entry in enumerate(large, 1):
            try:
                await durable(partial(add_run, storage, state, EntryRun([entry_id], [entry])))
            except DiskFullError:
                refused.append(entry_id)
        assert refused, "the disk was never full"
        disk.capacity_bytes = None
        again = EntryRun(refused, [large[entry_id - 1] for entry_id in refused])
        await durable(partial(add_run, storage, state, again))
        disk.process_crash()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk, **SETTINGS)
        state = storage.ledger(1)
        assert state is not None
        assert [await storage.read(state, entry_id) is not None for entry_id in range(9)] == [True] * 9
        await storage.close()

    run(main())
    disk.capacity_bytes = None
    run(restarted())
