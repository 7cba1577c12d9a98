"""Entries that are written once: where they stay, what goes away, and what is refused."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.journal.record import FILE_HEADER_BYTES, VERSION, decode_file_header
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock
from bookie_server.storage.index import Index, Interval
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.segments.places import is_segment, journal_file_id, segment_id
from bookie_server.storage.segments.scan import scan_segment
from bookie_server.storage.write_cache import WriteCache
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add,
    add_run,
    copy_as_after_kill,
    durable,
    found_ids,
    make_entry,
    open_storage,
)

PAYLOAD = bytes(range(256)) * 16
ONCE = {"single_write_bytes_min": 1}
SOME = {"single_write_bytes_min": 2000}


def journal_files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "journal").glob("*.journal"))


def entry_logs(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "ledgers" / "entry-logs").iterdir())


async def add_large(storage: LedgerStorage, ledger_id: int, ids: range) -> None:
    state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
    for each in ids:
        run = EntryRun([each], [make_entry(ledger_id, each, payload=PAYLOAD)])
        await durable(lambda done, run=run: add_run(storage, state, run, done))


async def large_ids(storage: LedgerStorage, ledger_id: int, count: int) -> list[int]:
    """The entries that are there, each of which is proved to have its bytes."""
    state = storage.ledger(ledger_id)
    assert state is not None
    found = []
    for each in range(count):
        entry = await storage.read(state, each)
        if entry is not None:
            assert bytes(entry) == bytes(make_entry(ledger_id, each, payload=PAYLOAD))
            found.append(each)
    return found


def test_large_runs_stay_in_the_journal_and_are_read_from_there(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **SOME)
        await add_large(storage, 5, range(60))
        await storage.checkpoint()
        assert storage.bytes_pending == 0
        assert entry_logs(tmp_path) == []
        assert len(journal_files(tmp_path)) > 3
        assert await large_ids(storage, 5, 70) == list(range(60))
        await storage.close()
        storage = await open_storage(tmp_path, **SOME)
        assert storage.bytes_pending == 0, "a restart has nothing to replay"
        assert await large_ids(storage, 5, 70) == list(range(60))
        state = storage.ledger(5)
        assert state is not None
        assert len(await storage.read_batch(state, 3, 40, 10**6)) == 40
        await storage.close()

    asyncio.run(main())


def test_small_runs_go_to_an_entry_log_and_both_kinds_are_one_ledger(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **SOME)
        state = storage.create_ledger(5, KEY)
        await add(storage, state, range(3))
        await add(storage, state, range(3, 60))
        await add(storage, state, [60, 64])
        await storage.checkpoint()
        await add(storage, state, [62])
        await add(storage, state, [61, 63])
        expected = list(range(65))
        assert await found_ids(storage, 5, 70) == expected
        await storage.checkpoint()
        assert len(entry_logs(tmp_path)) == 1
        assert await found_ids(storage, 5, 70) == expected
        assert await storage.entry_ranges(state) == [(0, 64)]
        killed = await open_storage(copy_as_after_kill(tmp_path, tmp_path.parent / "killed"), **SOME)
        assert await found_ids(killed, 5, 70) == expected
        await killed.close()
        await storage.close()

    asyncio.run(main())


def test_a_kill_before_the_checkpoint_loses_nothing_and_writes_nothing_again(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path / "first", **ONCE)
        await add_large(storage, 5, range(40))
        home = copy_as_after_kill(tmp_path / "first", tmp_path / "killed")
        await storage.close()
        storage = await open_storage(home, **ONCE)
        await storage.checkpoint()
        assert entry_logs(home) == []
        assert await large_ids(storage, 5, 50) == list(range(40))
        await storage.close()

    asyncio.run(main())


def test_a_file_goes_when_no_ledger_in_it_lives_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **ONCE)
        for ledger_id in range(4):
            await add_large(storage, ledger_id, range(40))
        await storage.checkpoint()
        before = journal_files(tmp_path)
        assert await storage.remove_dead_logs() == 0
        for ledger_id in (0, 2):
            await durable(lambda done, ledger_id=ledger_id: storage.delete_ledger(ledger_id, done))
        await storage.checkpoint()
        removed = await storage.remove_dead_logs()
        assert removed >= 3
        assert len(journal_files(tmp_path)) <= len(before) - removed + 1
        assert await storage.remove_dead_logs() == 0
        for ledger_id in (1, 3):
            assert await large_ids(storage, ledger_id, 50) == list(range(40))
        await storage.close()
        storage = await open_storage(tmp_path, **ONCE)
        for ledger_id in (1, 3):
            assert await large_ids(storage, ledger_id, 50) == list(range(40))
        await storage.close()

    asyncio.run(main())


def test_what_a_start_has_replayed_is_no_garbage_before_its_checkpoint(tmp_path: Path) -> None:
    """The index does not point into these files yet."""

    async def main() -> None:
        storage = await open_storage(tmp_path / "first", **ONCE)
        await add_large(storage, 5, range(60))
        home = copy_as_after_kill(tmp_path / "first", tmp_path / "killed")
        await storage.close()
        storage = await open_storage(
            home, write_cache_bytes_max=2**20, **ONCE
        )  # not so full that it checkpoints
        assert await storage.remove_dead_logs() == 0
        again = copy_as_after_kill(home, tmp_path / "again")
        await storage.close()
        storage = await open_storage(again, **ONCE)
        assert await large_ids(storage, 5, 70) == list(range(60))
        await storage.close()

    asyncio.run(main())


def test_the_setting_may_change_at_every_start(tmp_path: Path) -> None:
    async def main() -> None:
        for number, bytes_min in enumerate((0, 1, 0, 2000, 0)):
            storage = await open_storage(tmp_path, single_write_bytes_min=bytes_min)
            await add_large(storage, 5, range(20 * number, 20 * number + 20))
            await add(storage, storage.ledger(6) or storage.create_ledger(6, KEY), [number])
            if number % 2:
                await storage.checkpoint()
            assert await large_ids(storage, 5, 200) == list(range(20 * number + 20))
            killed = copy_as_after_kill(tmp_path, tmp_path.parent / f"killed-{number}")
            await storage.close()
            storage = await open_storage(killed, single_write_bytes_min=bytes_min)
            assert await large_ids(storage, 5, 200) == list(range(20 * number + 20))
            assert await found_ids(storage, 6, 9) == list(range(number + 1))
            await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("bytes_min_before", [0, 1], ids=["an index of version 1", "no index yet"])
def test_earlier_releases_are_refused_if_only_the_start_that_was_killed_wrote_entries_once(
    tmp_path: Path, bytes_min_before: int
) -> None:
    """They would remove the journal file, the only place of these entries."""

    async def main() -> None:
        if not bytes_min_before:
            storage = await open_storage(tmp_path / "first", single_write_bytes_min=0)
            await add_large(storage, 4, range(1))
            await storage.close()
        storage = await open_storage(tmp_path / "first", **ONCE)
        await add_large(storage, 5, range(3))
        killed = copy_as_after_kill(tmp_path / "first", tmp_path / "killed")
        await storage.close()
        storage = await open_storage(killed, single_write_bytes_min=0)
        await storage.checkpoint()
        assert await large_ids(storage, 5, 9) == [0, 1, 2]
        await storage.close()

    asyncio.run(main())
    index = Index(SystemDisk().open_key_values(tmp_path / "killed" / "ledgers" / "index"))
    index.log_end()
    assert any(is_segment(interval.log_id) for _, interval in index.all_intervals())
    assert not index.allow_segments(), "it had version 1"
    index.close()


def test_damage_in_a_block_is_an_error_and_not_absence(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **ONCE)
        await add_large(storage, 5, range(40))
        await storage.close()
        first = tmp_path / "journal" / journal_files(tmp_path)[0]
        content = bytearray(first.read_bytes())
        content[20_000] ^= 1
        first.write_bytes(content)
        storage = await open_storage(tmp_path, **ONCE)
        state = storage.ledger(5)
        assert state is not None
        outcomes = []
        for each in range(40):
            try:
                outcomes.append(await storage.read(state, each) is not None)
            except StorageError as error:
                assert str(first) in str(error)
                outcomes.append("error")
        assert outcomes.count("error") == 1
        assert outcomes.count(True) == 39
        await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["removed", "header", "another file"])
def test_a_lost_file_is_an_error_and_not_absence(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **ONCE)
        await add_large(storage, 5, range(40))
        await storage.close()
        first, second = (tmp_path / "journal" / name for name in journal_files(tmp_path)[:2])
        match how:
            case "removed":
                first.unlink()
            case "header":
                first.write_bytes(bytes(100) + first.read_bytes()[100:])
            case "another file":
                shutil.copyfile(second, first)
        storage = await open_storage(tmp_path, **ONCE)
        state = storage.ledger(5)
        assert state is not None
        with pytest.raises(StorageError):
            await storage.read(state, 0)
        assert await storage.read(state, 39) is not None
        await storage.close()

    asyncio.run(main())


def test_only_files_of_the_second_version_have_blocks(tmp_path: Path) -> None:
    """A release before it would remove them when they are behind the log mark, so it must refuse them."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        await add_large(storage, 5, range(2))
        await storage.close()
        storage = await open_storage(tmp_path, **ONCE)
        await add_large(storage, 5, range(2, 4))
        await storage.close()

    asyncio.run(main())
    versions = []
    for name in journal_files(tmp_path):
        path = tmp_path / "journal" / name
        version = decode_file_header(path.read_bytes()[:FILE_HEADER_BYTES], path).version
        scanned = list(scan_segment(SystemDisk(), path, segment_id(int(name[:16], 16)), None))
        assert version == VERSION or not scanned
        versions.append((version, len(scanned)))
    assert versions[-1] == (VERSION, 2)


def test_a_scan_finds_every_block_and_every_hole(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, **ONCE)
        await add_large(storage, 5, range(8))
        await storage.close()

    asyncio.run(main())
    name = journal_files(tmp_path)[-1]
    path, log_id = tmp_path / "journal" / name, segment_id(int(name[:16], 16))
    found = list(scan_segment(SystemDisk(), path, log_id, None))
    blocks = [each for each in found if isinstance(each, FoundBlock)]
    assert [list(each.block.ids) for each in blocks] == [[each] for each in range(8)]
    content = bytearray(path.read_bytes())
    content[blocks[3].offset + 100] ^= 4
    path.write_bytes(content)
    again = list(scan_segment(SystemDisk(), path, log_id, None))
    assert [each for each in again if isinstance(each, Damage)] == [
        Damage(path, blocks[3].offset, blocks[4].offset)
    ]
    assert len(again) == 8
    end = blocks[5].offset
    assert len(list(scan_segment(SystemDisk(), path, log_id, end))) == 5
    assert list(scan_segment(SystemDisk(), path, segment_id(99), end)) == [Damage(path, 0, end)]
    path.unlink()
    assert list(scan_segment(SystemDisk(), path, log_id, end)) == [Damage(path, 0, end)]


def test_numbers_of_segments_and_entry_logs_are_told_apart() -> None:
    assert journal_file_id(segment_id(7)) == 7
    assert segment_id(7) != 7


def test_a_checkpoint_writes_what_is_in_no_block() -> None:
    cache = WriteCache()
    entries = [bytes([each]) for each in range(30)]
    cache.put(1, range(10), entries[:10], 10)
    cache.put(1, range(10, 30), entries[10:], 20)
    assert [list(ids) for ids, _ in cache.unplaced(1)] == [list(range(30))]
    cache.place(1, range(5, 12), Interval(5, 11, segment_id(1), 0, 1, True))
    cache.place(1, [20, 22], Interval(20, 22, segment_id(1), 1, 1, False))
    unplaced = cache.unplaced(1)
    assert [list(ids) for ids, _ in unplaced] == [
        list(range(5)),
        list(range(12, 20)),
        [21],
        list(range(23, 30)),
    ]
    assert all([each[0] for each in entries] == list(ids) for ids, entries in unplaced)
    cache.place(2, [1], Interval(1, 1, segment_id(1), 2, 1, True))
    cache.drop(1)
    assert cache.placed == {}
