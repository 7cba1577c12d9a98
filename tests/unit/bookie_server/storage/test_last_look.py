"""No file is removed that has an intact block of which only the index has lost something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFullError, StorageError, TooManyFilesError
from bookie_server.storage.background.last_look import LastLook
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub import file_walk
from bookie_server.storage.segments.places import name_of
from tests.helpers.bookie.lost_intervals import lose_intervals, lose_log_records, unindexed
from tests.helpers.bookie.storage import COMPACTED_BELOW, KEY, add, durable, found_ids, open_storage

COUNT = 120


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(main())


async def with_garbage(home: Path) -> LedgerStorage:
    """In the first files only ledger 2 and garbage around it; all have ended."""
    storage = await open_storage(home, entry_log_bytes_max=16 * 1024)
    for ledger_id, count in ((1, COUNT), (2, COUNT), (3, 1000)):
        await add(storage, storage.create_ledger(ledger_id, KEY), range(count))
    await storage.checkpoint()
    await add(storage, storage.create_ledger(4, KEY), range(3000))
    await storage.checkpoint()
    for ledger_id in (1, 3):
        await durable(partial(storage.delete_ledger, ledger_id))
    await storage.checkpoint()
    return storage


async def lives(storage: LedgerStorage, home: Path) -> None:
    """All of ledger 2, also after a restart."""
    assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
    await storage.close()
    storage = await open_storage(home)
    await storage.remove_dead_logs()
    assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
    await storage.close()


@pytest.mark.parametrize("lost", ["intervals", "records of files", "both"])
def test_garbage_collection_keeps_what_the_index_has_lost(
    tmp_path: Path, both_storages: None, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path)
        index = storage._parts.index
        if lost != "records of files":
            lose_intervals(index, 2)
        if lost != "intervals":
            lose_log_records(index, 2)
        await storage.forget_blocks()
        await storage.remove_dead_logs()
        if lost == "intervals":  # the file is in use
            await storage.restore_blocks(await unindexed(storage))
        else:
            assert "a file stays that seemed to be garbage: the index had lost" in caplog.text
        await lives(storage, tmp_path)

    run(main)


def test_a_compaction_removes_no_file_with_a_block_that_it_did_not_find(
    tmp_path: Path, both_storages: None
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path)
        assert lose_intervals(storage._parts.index, 2, lambda each: each.first == 0)
        await storage.forget_blocks()
        await storage.compact(COMPACTED_BELOW)
        await lives(storage, tmp_path)

    run(main)


def test_a_scrubber_puts_back_which_files_a_ledger_has_blocks_in(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path)
        index = storage._parts.index
        files = {each.log_id for each in index.intervals(2)}
        lose_log_records(index, 2)
        restored = await storage.restore_blocks(await unindexed(storage))
        assert {each.log_id for each in restored} == files
        assert {str(each) for each in restored} == {
            f"that file {each:x} has entries of ledger 2" for each in files
        }
        for log_id in files:
            assert index.bytes_in_log(log_id, 2) == sum(
                each.block_bytes for each in index.intervals(2) if each.log_id == log_id
            )
        await lives(storage, tmp_path)

    run(main)


def test_the_file_stays_while_a_full_disk_keeps_the_entries_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=tmp_path)

    async def main() -> None:
        storage = await with_garbage(tmp_path)
        index = storage._parts.index
        lose_log_records(index, 2)
        with monkeypatch.context() as patched:
            patched.setattr(Index, "list_in_log", full)
            assert await storage.remove_dead_logs() == 0
        assert "which cannot be put back now: no space left" in caplog.text
        await storage.remove_dead_logs()
        await lives(storage, tmp_path)

    run(main)


@pytest.mark.parametrize("what", ["file", "index"])
def test_a_file_stays_that_cannot_be_looked_through_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def no_descriptor(*_: object) -> None:
        raise TooManyFilesError("too many open files", path=tmp_path)

    def unreadable(*_: object) -> None:
        raise StorageError("the index cannot be read", ledger_id=2)

    async def main() -> None:
        storage = await with_garbage(tmp_path)
        lose_log_records(storage._parts.index, 2)
        with monkeypatch.context() as patched:
            if what == "file":
                patched.setattr(file_walk, "WindowedFile", no_descriptor)
            else:
                patched.setattr(file_walk, "is_unlisted", unreadable)
            assert await storage.remove_dead_logs() == 0
        await lives(storage, tmp_path)

    run(main)


def test_garbage_is_removed_all_the_same(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path)
        await durable(partial(storage.delete_ledger, 2))
        await storage.checkpoint()
        assert await storage.remove_dead_logs() + (await storage.compact(COMPACTED_BELOW)).files_removed > 0
        await storage.close()

    run(main)


async def test_a_compaction_ends_although_a_dead_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to copy from there, and each log that it begins would be garbage in its next round."""
    storage = await with_garbage(tmp_path)
    await durable(partial(storage.delete_ledger, 2))
    await storage.checkpoint()

    async def stays(_look: LastLook, log_id: int) -> bool:
        return log_id != 1

    monkeypatch.setattr(LastLook, "keeps_nothing", stays)
    async with asyncio.timeout(20):
        for _ in range(2):
            await storage.compact(COMPACTED_BELOW)
    assert storage.failed is None
    await storage.close()


async def test_what_was_looked_through_is_removed_before_the_next_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await open_storage(tmp_path, entry_log_bytes_max=1024)
    for ledger_id in range(1, 6):
        await add(storage, storage.create_ledger(ledger_id, KEY), range(COUNT))
        await storage.checkpoint()
        await durable(partial(storage.delete_ledger, ledger_id))
    await storage.checkpoint()
    log_ids = storage._upkeep._dead_logs()
    files = [tmp_path / "ledgers/entry-logs" / name_of(each) for each in log_ids]
    looked = 0

    async def keeps_nothing(_look: LastLook, _log_id: int) -> bool:
        nonlocal looked
        assert [each.exists() for each in files] == [number >= looked for number in range(len(files))]
        looked += 1
        return True

    monkeypatch.setattr(LastLook, "keeps_nothing", keeps_nothing)
    assert await storage.remove_dead_logs() == len(files) == looked > 2
    await storage.close()


def entry_log_count(home: Path) -> int:
    return len(list((home / "ledgers" / "entry-logs").iterdir()))


def test_no_more_files_are_removed_while_much_space_is_yet_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def frees_much(_disk: SystemDisk) -> bool:
        seen.append(entry_log_count(tmp_path))
        return len(seen) < 4

    async def main() -> None:
        storage = await with_garbage(tmp_path)
        await durable(partial(storage.delete_ledger, 2))
        await storage.checkpoint()
        before = entry_log_count(tmp_path)
        monkeypatch.setattr(SystemDisk, "frees_much", property(frees_much))
        assert await storage.remove_dead_logs() == before - entry_log_count(tmp_path) > 0
        assert seen[:4] == [before] * 4
        await storage.close()

    run(main)


def test_a_stop_does_not_wait_for_space_that_is_yet_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path)
        await durable(partial(storage.delete_ledger, 2))
        await storage.checkpoint()
        waits = asyncio.Event()

        def frees_much(_disk: SystemDisk) -> bool:
            waits.set()
            return True

        monkeypatch.setattr(SystemDisk, "frees_much", property(frees_much))
        removing = asyncio.create_task(storage.remove_dead_logs())
        await waits.wait()
        await storage.close()
        assert await removing == 0

    run(main)
