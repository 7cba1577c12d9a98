"""A full disk is survived: reads, fences and recovery adds go on, restart works, space makes it writable."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bookie_server.errors import DiskFullError
from bookie_server.storage.entry_logs.entry_log import EntryLogWriter
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add,
    add_run,
    durable,
    fence,
    found_ids,
    make_entry,
    open_storage,
)
from tests.helpers.crash.scenarios import HOME
from tests.helpers.simulation.disk import new_disk, run
from tests.helpers.skips import NEEDS_MOUNT

pytestmark = pytest.mark.usefixtures("either_storage")

SETTINGS = {
    "journal_segment_bytes": 256 * 1024,
    "write_cache_bytes_max": 256 * 1024,
    "reserve_bytes": 512 * 1024,
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB of its own."""
    if os.geteuid() != 0:
        pytest.skip(NEEDS_MOUNT)
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"{NEEDS_MOUNT}: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill_up(directory: Path) -> Path:
    filler = directory / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


async def add_until_full(storage: LedgerStorage, ledger_id: int) -> int:
    """Add as a writer does, which stops at the first refusal; how many were acknowledged."""
    state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
    acked = 0
    while storage.writable:
        try:
            await add(storage, state, range(acked, acked + 50))
        except DiskFullError:
            break
        acked += 50
        await storage.wait_for_room()
    return acked


def test_a_full_disk_refuses_nothing_but_normal_adds(small_disk: Path) -> None:
    async def main() -> None:
        storage = await open_storage(small_disk / "bookie", **SETTINGS)
        changes: list[bool] = []
        storage.on_writable_change = changes.append
        acked = await add_until_full(storage, 1)
        assert acked > 1000
        assert changes == [False]
        for _ in range(5):  # a checkpoint on the reserve frees journal files, so more than once
            fill_up(small_disk)
            await storage.check_disk()
        assert not storage.writable
        assert storage.has_room
        state, new = storage.ledger(1), storage.create_ledger(2, KEY)
        assert state is not None
        await fence(storage, state)
        await fence(storage, new)
        await add(storage, state, range(acked, acked + 50))  # a recovery add
        assert await found_ids(storage, 1, acked + 50) == list(range(acked + 50))
        assert storage.failed is None
        await storage.close()

    asyncio.run(main())


def test_restart_works_on_a_full_disk_and_space_makes_it_writable(small_disk: Path) -> None:
    async def main() -> None:
        storage = await open_storage(small_disk / "bookie", **SETTINGS)
        acked = await add_until_full(storage, 1)
        await storage.close()
        filler = fill_up(small_disk)
        for ledger_id in (11, 12, 13):
            storage = await open_storage(small_disk / "bookie", **SETTINGS)
            assert not storage.writable
            assert await found_ids(storage, 1, acked) == list(range(acked))
            await fence(storage, storage.create_ledger(ledger_id, KEY))
            await storage.close()
            fill_up(small_disk)
        filler.unlink()
        storage = await open_storage(small_disk / "bookie", **SETTINGS)
        await storage.check_disk()
        for ledger_id in (11, 12, 13):
            fenced = storage.ledger(ledger_id)
            assert fenced is not None
            assert fenced.fenced
        assert storage.writable or storage.usage()[0].free_bytes < 2 * 1024 * 1024
        await storage.close()

    asyncio.run(main())


def test_space_that_comes_back_makes_it_writable_again(small_disk: Path) -> None:
    async def main() -> None:
        storage = await open_storage(small_disk / "bookie", **SETTINGS)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(100))
        filler = fill_up(small_disk)
        acked = 100
        while storage.writable:
            try:
                await add(storage, state, range(acked, acked + 50))
            except DiskFullError:
                break
            acked += 50
            await storage.check_disk()
        await storage.check_disk()
        assert not storage.writable
        filler.unlink()
        await storage.check_disk()
        assert storage.writable
        await add(storage, state, range(acked, acked + 500))
        await storage.checkpoint()
        assert await found_ids(storage, 1, acked + 500) == list(range(acked + 500))
        await storage.close()
        storage = await open_storage(small_disk / "bookie", **SETTINGS)
        assert await found_ids(storage, 1, acked + 500) == list(range(acked + 500))
        await storage.close()

    asyncio.run(main())


def test_a_ledger_created_on_a_full_disk_keeps_its_key() -> None:
    """The key record could not be written; it must come before the first entry that could.

    On a simulated disk, since no copy of a directory that is in use is what a killed process leaves.
    """
    home, disk = Path("/bookie"), new_disk()

    async def main() -> None:
        storage = await open_storage(home, disk, **SETTINGS)
        await add(storage, storage.create_ledger(1, KEY), range(10))
        disk.capacity_bytes = disk.used_bytes
        with pytest.raises(DiskFullError):  # until there is no room for the smallest record
            for ledger_id in itertools.count(100):
                await fence(storage, storage.create_ledger(ledger_id, KEY))
        two = storage.create_ledger(2, KEY)
        with pytest.raises(DiskFullError):
            await add(storage, two, range(10))
        disk.capacity_bytes = None
        await storage.check_disk()
        await add(storage, two, range(10))
        disk.process_crash()

    async def restarted() -> None:
        storage = await open_storage(home, disk, **SETTINGS)
        again = storage.ledger(2)
        assert again is not None
        assert again.master_key == KEY
        assert (await found_ids(storage, 2, 10)) == list(range(10))
        await storage.close()

    run(main())
    run(restarted())


def test_limbo_that_found_no_room_to_end_can_be_ended_later() -> None:
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(Path("/bookie"), disk, **SETTINGS)
        index = storage._parts.index
        index.set_limbo(1)
        index.sync(index.generation())
        disk.capacity_bytes = disk.used_bytes - SETTINGS["reserve_bytes"]
        with pytest.raises(DiskFullError):
            await storage.clear_limbo()
        assert storage.failed is None
        disk.capacity_bytes = None
        await storage.clear_limbo()
        assert index.limbo_since() is None
        await add(storage, storage.create_ledger(1, KEY), range(10))
        await storage.checkpoint()
        await storage.close()

    run(main())


def test_a_checkpoint_that_found_no_room_succeeds_at_the_first_try_with_room() -> None:
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(Path("/bookie"), disk, **SETTINGS)
        await add(storage, storage.create_ledger(1, KEY), range(10))
        disk.capacity_bytes = disk.used_bytes - SETTINGS["reserve_bytes"]
        with pytest.raises(DiskFullError):
            await storage.checkpoint()
        disk.capacity_bytes = None
        await storage.checkpoint()
        assert (await found_ids(storage, 1, 10)) == list(range(10))
        await storage.close()

    run(main())


async def add_one(storage: LedgerStorage, state: StoredLedger, entry_id: int) -> bool:
    """Add 1,000 bytes as a recovery does, which asks again whatever was refused; False on a full disk."""
    entries = EntryRun([entry_id], [make_entry(state.ledger_id, entry_id, payload=bytes(1000))])
    try:
        await durable(partial(add_run, storage, state, entries))
    except DiskFullError:
        return False
    return True


def test_recovery_adds_that_a_full_disk_refuses_take_bounded_memory() -> None:
    """They are refused by the journal, after the cache has taken them."""

    async def main() -> None:
        disk, cache_bytes = new_disk(), 64 * 1024
        storage = await open_storage(
            HOME, disk, write_cache_bytes_max=cache_bytes, journal_segment_bytes=256 * 1024, reserve_bytes=0
        )
        state = storage.create_ledger(1, KEY)
        assert await add_one(storage, state, 0)
        disk.capacity_bytes = disk.used_bytes
        taken = [entry_id for entry_id in range(1, 2000) if await add_one(storage, state, entry_id)]
        assert len(taken) * 1000 > 3 * cache_bytes, "what the journal has capacity for is taken"
        refused = 1999 - len(taken)
        assert refused > 1000
        assert storage.bytes_pending < 1300 * len(taken) + 2 * cache_bytes
        assert storage.has_room
        disk.capacity_bytes = None
        await storage.check_disk()
        assert await add_one(storage, state, 2000)
        for entry_id in (0, *taken, 2000):
            assert await storage.read(state, entry_id) is not None
        await storage.close()

    run(main())


def test_recovery_adds_take_bounded_memory_while_only_the_ledger_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal, on a disk of its own, would take them without end."""

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=HOME)

    async def main() -> None:
        disk, cache_bytes, segment_bytes = new_disk(), 64 * 1024, 256 * 1024
        storage = await open_storage(
            HOME, disk, write_cache_bytes_max=cache_bytes, journal_segment_bytes=segment_bytes
        )
        state = storage.create_ledger(1, KEY)
        with monkeypatch.context() as patched:
            patched.setattr(EntryLogWriter, "append", full)
            taken = [entry_id for entry_id in range(2000) if await add_one(storage, state, entry_id)]
            assert storage.bytes_pending < 3 * cache_bytes + 2 * segment_bytes
            assert storage.has_room
            await fence(storage, state)
        await storage.check_disk()
        assert storage.writable
        assert await add_one(storage, state, 2000)
        for entry_id in (*taken, 2000):
            assert await storage.read(state, entry_id) is not None
        await storage.close()

    run(main())
