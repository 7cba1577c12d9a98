"""The walk over the files finds each intact block whose entries the index has lost, and takes nothing else for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFullError, StorageError, TooManyFilesError
from bookie_server.storage.checkpoint import Checkpointer
from bookie_server.storage.compaction.run import CompactionRun
from bookie_server.storage.compaction.selection import select
from bookie_server.storage.compaction.space import measure
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import BLOCK_HEADER_BYTES, Block
from bookie_server.storage.entry_logs.scan import FoundBlock, scan
from bookie_server.storage.index import Index, Interval, state_record
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.maintenance import StorageMaintenance
from bookie_server.storage.rebuild.stopped import rebuild_index
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.storage_paths import StoragePaths
from tests.helpers.bookie.lost_intervals import interval_key, lose_intervals, places_of, unindexed
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    durable,
    open_storage,
    small_config,
)
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

LEDGERS = (1, 2, 5)
COUNT = 100


async def filled(home: Path, **settings: object) -> LedgerStorage:
    """Some ledgers, in several files and blocks."""
    storage = await open_storage(home, **{"entry_log_bytes_max": 8192, **settings})
    for first in range(0, COUNT, 50):
        for ledger_id in LEDGERS:
            state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
            await add(storage, state, range(first, first + 50))
        await storage.checkpoint()
    return storage


def index_of(storage: LedgerStorage) -> Index:
    return storage._parts.index


def path_in(home: Path, log_id: int) -> Path:
    paths = StoragePaths.of(small_config(home))
    return path_of(SystemDisk(), paths, log_id)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(main())


@pytest.mark.parametrize("bytes_max", [1, 5000, 10**9])
def test_each_lost_block_is_found_and_no_other(tmp_path: Path, both_storages: None, bytes_max: int) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        assert await unindexed(storage, bytes_max) == []
        lost = lose_intervals(index_of(storage), 2, lambda each: each.first in (0, 50) or each.last > 80)
        found = await unindexed(storage, bytes_max)
        assert places_of(found) == {(each.log_id, each.offset) for each in lost}
        assert {entry_id for each in found for entry_id in each.ids} == {
            entry_id for each in lost for entry_id in range(each.first, each.last + 1)
        }
        assert {each.ledger_id for each in found} == {2}
        await storage.close()

    run(main)


def test_headers_are_enough_where_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path, block_bytes_max=64 * 1024, entry_log_bytes_max=2**30)
        state = storage.create_ledger(9, KEY)
        for first in range(0, 8000, 500):
            await add(storage, state, range(first, first + 500))
        await storage.checkpoint()
        files = await storage.block_files()
        step = storage.file_walk().step(files, FIRST_FILE, 10**9)
        assert step.unindexed == () and step.next is None
        assert 0 < step.bytes_read < sum(each.end or 0 for each in files) / 8
        await storage.close()

    run(main)


def test_entries_added_late_twice_and_in_part_are_not_lost(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        state = storage.create_ledger(9, KEY)
        await add(storage, state, range(0, 60, 2))
        await storage.checkpoint()
        await add(storage, state, [1, 5, 7, 33])
        await storage.checkpoint()
        await add(storage, state, [3, 4, 5, 35])
        await add(storage, state, range(60))
        await storage.checkpoint()
        assert await unindexed(storage) == []
        await storage.close()
        storage = await open_storage(tmp_path)
        assert await unindexed(storage) == []
        await storage.close()

    run(main)


def test_an_interval_that_hides_a_late_entry_is_found(tmp_path: Path) -> None:
    """The index has the older interval again, whole: its block has entries before and after the late one."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(9, KEY)
        await add(storage, state, [0, 2, 4, 6])
        await storage.checkpoint()
        index = index_of(storage)
        [(key, value)] = index._store.scan(interval_key(9, 0), interval_key(9, 7))
        await add(storage, state, [3])
        await storage.checkpoint()
        lose_intervals(index, 9)
        index._store.write([(key, value)])
        [found] = await unindexed(storage)
        assert (found.ledger_id, found.ids) == (9, (3,))
        await storage.close()

    run(main)


def test_what_need_not_be_there_is_not_lost(tmp_path: Path, both_storages: None) -> None:
    """Ledgers that are deleted or unknown, and entries above the last one as stored."""

    async def main() -> None:
        storage = await filled(tmp_path)
        index = index_of(storage)
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        assert lose_intervals(index, 1) == []
        lose_intervals(index, 2)
        index._store.write((), [b"S" + (2).to_bytes(8, "big")])
        lose_intervals(index, 5)
        lower = StoredLedger(5, KEY)
        lower.last_entry = 30
        index.put_states([state_record(lower)])
        found = await unindexed(storage)
        assert {each.ledger_id for each in found} == {5}
        assert sorted(entry_id for each in found for entry_id in each.ids) == list(range(31))
        await storage.close()

    run(main)


def test_a_checkpoint_that_is_not_complete_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks are in the current entry log, after the end that the last checkpoint has stored."""

    def full(_: object, *__: object) -> None:
        raise DiskFullError("no space left for the index", path=tmp_path)

    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(9, KEY)
        await add(storage, state, [*range(40), 200])
        await storage.checkpoint()
        await add(storage, state, range(40, 100))
        with monkeypatch.context() as patched:
            patched.setattr(Checkpointer, "_index_entries", full)
            with pytest.raises(DiskFullError):
                await storage.checkpoint()
        assert storage._parts.checkpointer.has_placed
        [file] = await storage.block_files()
        assert file.end is not None and file.end < storage._parts.writer.end.offset
        assert await unindexed(storage) == []
        await storage.check_disk()
        await storage.checkpoint()
        assert await unindexed(storage) == []
        [file] = await storage.block_files()
        assert file.end == storage._parts.writer.end.offset
        await storage.close()

    run(main)


def test_a_file_whose_blocks_a_compaction_has_moved_is_not_lost(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        for ledger_id in (1, 2):
            state = storage.ledger(ledger_id)
            assert state is not None
            await add(storage, state, range(COUNT, 10 * COUNT))
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        parts = storage._parts
        before = await storage.block_files()
        files = measure(parts.disk, parts.paths, parts.index, parts.checkpointer.mark.file_id)
        compaction = CompactionRun(
            parts, select(files, COMPACTED_BELOW, 2**40, 2**40).files, parts.paths.entry_logs, 2048, 2**40
        )
        while compaction.copy() is not None:
            pass
        assert await unindexed(storage) == [], "the copy has no number yet"
        assert compaction.finish() > 0
        after = await storage.block_files()
        assert {each.log_id for each in after} > {each.log_id for each in before}
        assert await unindexed(storage) == [], "the old files are still there"
        await storage.remove_dead_logs()
        assert await unindexed(storage) == []
        walk = storage.file_walk()
        assert walk.step(after, FIRST_FILE, 10**9).unindexed == (), "files that are missing by now"
        await storage.close()

    run(main)


def test_a_rebuilt_index_has_lost_nothing(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        await durable(partial(storage.delete_ledger, 1))
        await storage.close()
        assert rebuild_index(SystemDisk(), small_config(tmp_path), lambda _: None).lost == []
        storage = await open_storage(tmp_path)
        assert await unindexed(storage) == []
        await storage.close()

    run(main)


def test_lost_ledger_states_do_not_make_entries_look_lost(tmp_path: Path) -> None:
    """Of files whose end is unknown then, all is walked."""

    async def main() -> None:
        storage = await filled(tmp_path)
        await storage.close()
        (tmp_path / "ledgers" / "ledger-states").unlink()
        storage = await open_storage(tmp_path)
        assert None in {each.end for each in await storage.block_files()}
        assert await unindexed(storage) == []
        lost = lose_intervals(index_of(storage), 1)
        assert places_of(await unindexed(storage)) == {(each.log_id, each.offset) for each in lost}
        await storage.close()

    run(main)


@pytest.mark.parametrize("bytes_max", [1, 10**9])
@pytest.mark.parametrize("single_write_bytes_min", [0, 1])
@pytest.mark.parametrize("step", [-1, 1, 900, 70_000, 2**31])
def test_a_damaged_header_hides_no_lost_block(
    tmp_path: Path, single_write_bytes_min: int, step: int, bytes_max: int
) -> None:
    """One with a wrong length leads elsewhere. The blocks after it are found all the same."""

    async def main() -> None:
        storage = await filled(tmp_path, single_write_bytes_min=single_write_bytes_min)
        intervals = sorted(
            (each.log_id, each.offset, ledger_id, each)
            for ledger_id, each in index_of(storage).all_intervals()
        )
        log_id = intervals[0][0]
        first, *rest = [each for each in intervals if each[0] == log_id]
        assert len(rest) > 2
        lost: list[Interval] = []
        for _, _, ledger_id, interval in rest:
            lost += lose_intervals(index_of(storage), ledger_id, interval.__eq__)
        at = first[1] + (BLOCK_HEADER_BYTES - 4 if not is_segment(log_id) else 4)
        path = path_in(tmp_path, log_id)
        size = int.from_bytes(path.read_bytes()[at : at + 4], "big")
        overwrite(path, at, ((size + step) % 2**32).to_bytes(4, "big"))
        found = await unindexed(storage, bytes_max)
        assert places_of(found) == {(each.log_id, each.offset) for each in lost}
        await storage.close()

    run(main)


def test_a_lost_block_that_is_damaged_is_not_reported(tmp_path: Path, both_storages: None) -> None:
    """There is nothing to restore from; what else the index has lost is found."""

    async def main() -> None:
        storage = await filled(tmp_path)
        damaged, *others = lose_intervals(index_of(storage), 2)
        overwrite(path_in(tmp_path, damaged.log_id), damaged.offset + damaged.block_bytes - 3, b"?")
        assert places_of(await unindexed(storage)) == {(each.log_id, each.offset) for each in others}
        await storage.close()

    run(main)


def test_a_damaged_file_header_hides_blocks_of_a_journal_file_only(tmp_path: Path) -> None:
    """The checksums of its records begin with what is in its header."""

    async def main() -> None:
        storage = await filled(tmp_path, single_write_bytes_min=400)
        for path in [*(tmp_path / "journal").glob("*.journal"), *(tmp_path / "ledgers/entry-logs").iterdir()]:
            overwrite(path, 20, b"?????")
        lost = lose_intervals(index_of(storage), 2)
        found = await unindexed(storage)
        assert places_of(found) == {
            (each.log_id, each.offset) for each in lost if not is_segment(each.log_id)
        }
        await storage.close()

    run(main)


def test_an_index_that_cannot_be_read_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise StorageError("the index is damaged")

    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        for name in ("state", "overlapping"):
            with monkeypatch.context() as patched:
                patched.setattr(Index, name, unreadable)
                assert await unindexed(storage) == []
        assert await unindexed(storage) != []
        await storage.close()

    run(main)


def test_files_before_the_position_are_not_walked_again(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        lost = sorted(lose_intervals(index_of(storage), 2), key=lambda each: (each.log_id, each.offset))
        files, walk = await storage.block_files(), storage.file_walk()
        later = [each for each in lost if (each.log_id, each.offset) > (lost[0].log_id, lost[0].offset)]
        position = FilePosition(lost[0].log_id, lost[0].offset + lost[0].block_bytes)
        found = list(walk.step(files, position, 10**9).unindexed)
        assert places_of(found) == {(each.log_id, each.offset) for each in later} != set()
        missing = FilePosition(lost[0].log_id, 10**9)
        found = list(walk.step(files, missing, 10**9).unindexed)
        assert places_of(found) == {
            (each.log_id, each.offset) for each in lost if each.log_id > lost[0].log_id
        }
        await storage.close()

    run(main)


@pytest.mark.parametrize("block_bytes_max", [300, 4000])
@pytest.mark.parametrize("sector", [40, 41, 77])
def test_an_unreadable_sector_hides_only_the_blocks_in_it(block_bytes_max: int, sector: int) -> None:
    home, disk = Path("/bookie"), new_disk()
    bad = range(512 * sector, 512 * (sector + 1))

    def is_readable(place: Interval) -> bool:
        return place.offset >= bad.stop or place.offset + place.block_bytes <= bad.start

    async def main() -> None:
        storage = await open_storage(home, disk, block_bytes_max=block_bytes_max)
        await add(storage, storage.create_ledger(1, KEY), range(1000))
        await storage.checkpoint()
        places = list(index_of(storage).intervals(1))
        readable = [each.offset for each in places if is_readable(each)]
        log_id = places[0].log_id
        path = path_in(home, log_id)
        disk._media.bad_sectors[path] = [bad]
        found = scan(disk, path, log_id, places[-1].offset + places[-1].block_bytes)
        assert [each.offset for each in found if isinstance(each, FoundBlock)] == readable
        lose_intervals(index_of(storage), 1, is_readable)
        assert [each.offset for each in await unindexed(storage)] == readable
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("error", [None, TooManyFilesError("no descriptor is left", path=Path("x"))])
def test_a_large_block_that_many_small_ones_lead_to_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TooManyFilesError | None
) -> None:
    """After a compaction of a ledger with gaps. Without a descriptor for it nothing is known, and nothing is sure."""

    async def main() -> None:
        storage = await open_storage(tmp_path, block_bytes_max=32 * 1024, entry_log_bytes_max=1024)
        state, garbage = storage.create_ledger(1, KEY), storage.create_ledger(2, KEY)
        for entry_id in range(0, 60, 2):
            await add(storage, state, [entry_id])
            await add(storage, garbage, [entry_id])
            await storage.checkpoint()
        await durable(partial(storage.delete_ledger, 2))
        await storage.checkpoint()
        old = (await storage.block_files())[:3]
        monkeypatch.setattr(StorageMaintenance, "remove_dead_logs", none_removed)
        assert (await storage.compact(1.0)).copied_bytes > 0
        walk, reads = storage.file_walk(), list[tuple[int, int]]()
        honest = EntryLogReader.read

        def read(self: EntryLogReader, ledger_id: int, intervals: Sequence[Interval]) -> list[Block]:
            reads.append((intervals[0].log_id, intervals[0].offset))
            if error is not None:
                raise StorageError(str(error)) from error
            return honest(self, ledger_id, intervals)

        monkeypatch.setattr(EntryLogReader, "read", read)
        step = walk.step(old, FIRST_FILE, 1 << 30)
        assert not step.unindexed and step.next is None
        assert step.is_sure == (error is None)
        assert 0 < len({*reads}) < len(old)
        assert (len(reads) == len({*reads})) == (error is None)
        monkeypatch.setattr(EntryLogReader, "read", honest)
        await storage.close()

    run(main)


async def none_removed(_: StorageMaintenance) -> int:
    return 0
