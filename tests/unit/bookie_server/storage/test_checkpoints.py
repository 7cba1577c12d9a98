"""Checkpoints while a disk is full, and while appends fill a half of the cache as fast as the other one is stored."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bookie_server.errors import DiskFullError, StorageClosedError, StorageError
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add,
    add_run,
    copy_as_after_kill,
    durable,
    fence,
    found_ids,
    make_entry,
    open_storage,
)
from tests.helpers.simulation.disk import new_disk, run

_HOME = Path("/bookie")
_CACHE_BYTES = 64 * 1024
_ENTRIES = 200


async def _opened(disk: SimulatedDisk) -> LedgerStorage:
    return await open_storage(
        _HOME,
        disk,
        journal_segment_bytes=16 * 1024 * 1024,
        write_cache_bytes_max=_CACHE_BYTES,
        entry_log_bytes_max=2**30,
        reserve_bytes=0,
        disk_check_interval_s=10.0,
        disk_usage_max=0.95,
        disk_usage_writable=0.9,
    )


async def _filled(storage: LedgerStorage, state: StoredLedger, acked: int) -> int:
    """A checkpoint has met the full disk, and as much as one takes has been added since; the next entry id."""
    while not storage._upkeep.held_up or storage._parts.caches.active.size < _CACHE_BYTES:
        await add(storage, state, range(acked, acked + _ENTRIES))
        acked += _ENTRIES
        await asyncio.sleep(0.05)
    return acked


def test_a_checkpoint_that_met_a_full_disk_is_repeated_by_one_run() -> None:
    """Entries and fences that came during it are in the next one, also if that meets a full disk again."""

    async def main() -> None:
        disk = new_disk(timing=DiskTiming(write_bytes_per_s=2e6, sync_s=(1e-3, 5e-3)))
        storage = await _opened(disk)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(10))
        await storage.checkpoint()
        disk.capacity_bytes = disk.used_bytes
        acked = await _filled(storage, state, 10)
        disk.capacity_bytes = None
        checkpoint = asyncio.create_task(storage.checkpoint())
        fenced: list[int] = []
        while not checkpoint.done():
            await add(storage, state, range(acked, acked + _ENTRIES))
            acked += _ENTRIES
            other = storage.create_ledger(100 + len(fenced), KEY)
            await add(storage, other, [0])
            await fence(storage, other)
            fenced.append(other.ledger_id)
            await storage.wait_for_room()
        disk.capacity_bytes = disk.used_bytes
        await asyncio.sleep(5)
        disk.capacity_bytes = None
        await storage.check_disk()
        assert storage.writable
        await storage.close()

        storage = await _opened(disk)
        found = storage.ledger(1)
        assert found is not None
        assert [each for each in range(acked) if await storage.read(found, each) is None] == []
        assert fenced and all((each := storage.ledger(other)) and each.fenced for other in fenced)
        await storage.close()

    run(main())


def test_a_log_mark_that_a_full_disk_held_up_is_stored_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing is new: until then no journal file goes away, and a start has all of it to replay."""

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=_HOME)

    async def main() -> None:
        storage = await _opened(new_disk())
        checkpointer = storage._parts.checkpointer
        await add(storage, storage.create_ledger(1, KEY), range(10))
        before = checkpointer.mark
        with monkeypatch.context() as patched:
            patched.setattr(StateLog, "_put", full)
            await storage.checkpoint()
        assert checkpointer.mark == before
        await storage.checkpoint()
        assert checkpointer.mark.sequence > before.sequence
        generation = checkpointer.generation
        await storage.checkpoint()
        assert checkpointer.generation == generation, "nothing was left to do"
        await storage.close()

    run(main())


def test_checkpoints_and_checks_of_the_disk_have_their_turn_under_load() -> None:
    async def main() -> None:
        disk = new_disk(timing=DiskTiming(write_bytes_per_s=2e6, sync_s=(20e-3, 30e-3)))
        storage = await _opened(disk)
        loop = asyncio.get_running_loop()

        async def keep_adding(ledger_id: int) -> None:
            state, at = storage.create_ledger(ledger_id, KEY), 0
            while True:
                await storage.wait_for_room()
                await add(storage, state, range(at, at + 60))
                at += 60

        load = [loop.create_task(keep_adding(each)) for each in range(1, 9)]
        await asyncio.sleep(5)
        assert not storage.has_room or storage._upkeep._running is not None
        disk.nearly_full = True
        async with asyncio.timeout(5):
            await storage.checkpoint()
        await asyncio.sleep(10)
        assert not storage.writable
        for each in load:
            each.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        await storage.close()

    run(main())


def test_a_reading_worker_that_has_ended_ends_a_checkpoint_on_a_full_disk_with_the_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not the task that checks the disk, without a word."""

    async def forget_all() -> None:
        raise StorageClosedError("the reading worker has ended")

    async def main() -> None:
        disk = new_disk()
        storage = await _opened(disk)
        await add(storage, storage.create_ledger(1, KEY), range(10))
        monkeypatch.setattr(storage._reader, "forget_all", forget_all)
        disk.capacity_bytes = disk.used_bytes
        with pytest.raises(DiskFullError):
            await storage.checkpoint()
        assert isinstance(storage.failed, StorageClosedError)
        await storage.check_disk()
        monkeypatch.undo()
        await storage.close()

    run(main())


def test_a_start_that_has_replayed_a_full_cache_checkpoints_without_another_add(tmp_path: Path) -> None:
    """A bookie that was killed during a checkpoint under load: other requests than adds would wait, too."""

    async def run() -> None:
        storage = await open_storage(tmp_path / "killed", write_cache_bytes_max=2**20)
        await add(storage, storage.create_ledger(1, KEY), range(_ENTRIES))
        copy_as_after_kill(tmp_path / "killed", tmp_path / "copy")
        await storage.close()

        storage = await open_storage(tmp_path / "copy", write_cache_bytes_max=16 * 1024)
        try:
            async with asyncio.timeout(30):
                await storage.wait_for_room()
            assert await found_ids(storage, 1, _ENTRIES) == list(range(_ENTRIES))
        finally:
            await storage.close()

    asyncio.run(run())


def test_an_entry_log_that_cannot_be_opened_is_left(tmp_path: Path) -> None:
    """The bookie starts, what it stores goes into the next log, and what is in that one is unknown."""

    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie")
        await add(storage, storage.create_ledger(1, KEY), range(10))
        await storage.close()
        [log] = (tmp_path / "bookie" / "ledgers" / "entry-logs").iterdir()
        log.rename(tmp_path / "elsewhere")
        log.symlink_to(tmp_path / "elsewhere")  # no link is followed
        storage = await open_storage(tmp_path / "bookie")
        state = storage.ledger(1)
        assert state is not None
        await add(storage, state, range(10, 20))
        await storage.checkpoint()
        await storage.forget_blocks()
        assert storage.failed is None
        assert await storage.read(state, 15) == make_entry(1, 15)
        with pytest.raises(StorageError, match="cannot open"):
            await storage.read(state, 5)
        await storage.close()

    asyncio.run(main())


def test_an_entry_log_is_larger_than_its_limit_by_one_checkpoint_at_most() -> None:
    """A checkpoint writes into one log (docs/options.md: entry_log_bytes_max)."""

    async def main() -> None:
        disk = new_disk()
        log_bytes_max = _CACHE_BYTES // 2
        storage = await open_storage(
            _HOME, disk, write_cache_bytes_max=_CACHE_BYTES, entry_log_bytes_max=log_bytes_max
        )
        state = storage.create_ledger(1, KEY)
        payload = bytes(1024)
        for entry_id in range(600):
            entries = EntryRun([entry_id], [make_entry(1, entry_id, payload=payload)])
            await durable(partial(add_run, storage, state, entries))
        await storage.checkpoint()
        logs = _HOME / "ledgers" / "entry-logs"
        sizes = [len(disk.read_file(logs / name)) for name in disk.list(logs)]
        assert len(sizes) > 5 and log_bytes_max < max(sizes) <= log_bytes_max + _CACHE_BYTES
        await storage.close()

    run(main())
