"""Compaction: what it copies, when files go away, and what happens at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.disk import DiskFile
from bookie_server.errors import DiskFailedError, DiskFullError, StorageError, TooManyFilesError
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.compaction.run import CompactionRun
from bookie_server.storage.compaction.selection import select
from bookie_server.storage.compaction.space import FileSpace, measure
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Index, Interval
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    copy_as_after_kill,
    durable,
    found_ids,
    open_storage,
)
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

SETTINGS: dict[str, Any] = {"entry_log_bytes_max": 48 * 1024}
LEDGERS, ROUNDS, EACH = 5, 8, 42
COUNT = ROUNDS * EACH


async def interleaved(storage: LedgerStorage) -> None:
    """Ledgers 0 to 4, of each some entries in every checkpoint."""
    for step in range(ROUNDS):
        for ledger_id in range(LEDGERS):
            state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
            await add(storage, state, range(EACH * step, EACH * (step + 1)))
        await storage.checkpoint()


async def delete(storage: LedgerStorage, ledger_ids: Sequence[int]) -> None:
    for ledger_id in ledger_ids:
        await durable(partial(storage.delete_ledger, ledger_id))
    await storage.checkpoint()


async def with_garbage(
    home: Path, *disk: SimulatedDisk, deleted: Sequence[int] = (0, 1, 2, 4), **settings: Any
) -> LedgerStorage:
    """A storage with the interleaved ledgers, of which these are deleted."""
    storage = await open_storage(home, *disk, **settings)
    await interleaved(storage)
    await delete(storage, deleted)
    return storage


def entry_logs(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "ledgers" / "entry-logs").iterdir())


def places(storage: LedgerStorage, ledger_id: int) -> list[Interval]:
    return list(storage._parts.index.intervals(ledger_id))


def begun(storage: LedgerStorage) -> CompactionRun:
    """A run that has copied everything, step by step on this thread."""
    parts = storage._parts
    files = measure(parts.disk, parts.paths, parts.index, parts.checkpointer.mark.file_id)
    chosen = select(files, COMPACTED_BELOW, 2**40, 2**40).files
    assert chosen
    run = CompactionRun(parts, chosen, parts.paths.entry_logs, 2048, 2**40)
    while run.copy() is not None:
        pass
    return run


def compacted_now(storage: LedgerStorage) -> None:
    begun(storage).finish()
    for log_id in storage._upkeep._dead_logs():
        storage._upkeep._remove_log(log_id)


def test_what_garbage_collection_removes_during_a_compaction_counts_as_removed(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path / "bookie", **SETTINGS)

        async def collect() -> None:
            while True:
                await storage.remove_dead_logs()
                await asyncio.sleep(0)

        before = set(entry_logs(tmp_path / "bookie"))
        collecting = asyncio.create_task(collect())
        done = await storage.compact(COMPACTED_BELOW)
        collecting.cancel()
        await asyncio.wait([collecting])
        removed = before - set(entry_logs(tmp_path / "bookie"))
        assert removed and done.files_removed == len(removed)
        await storage.close()

    asyncio.run(main())


def counted_files(storage: LedgerStorage) -> int:
    counts = storage.counts()
    assert counts.entry_logs is not None and counts.journal_files is not None
    return counts.entry_logs + counts.journal_files


def test_space_comes_back_and_what_is_left_is_in_sequence(tmp_path: Path, both_storages: None) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie", **SETTINGS)
        await interleaved(storage)
        old = places(storage, 3)
        before = {place.log_id for place in old}
        await delete(storage, [0, 1, 2, 4])
        assert await storage.remove_dead_logs() == 0
        files_before = counted_files(storage)
        done = await storage.compact(0.5)
        assert done.refusal == ""
        assert done.files_removed >= len(before) - 1
        counts = storage.counts()
        assert (counts.files_removed, counts.compacted_bytes) == (done.files_removed, done.copied_bytes)
        assert counts.compactions >= 1 and counts.ledgers_deleted == 4 and counts.checkpoints >= 1
        assert counted_files(storage) < files_before
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        there = places(storage, 3)
        copied = [place for place in there if place.log_id not in before]
        assert [place.offset for place in copied[1:]] == [
            place.offset + place.block_bytes for place in copied[:-1]
        ]
        assert {place.log_id for place in copied} == {copied[0].log_id}
        assert len(there) < len(old)
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed")
        await storage.close()
        for home in (tmp_path / "bookie", killed):
            storage = await open_storage(home, **SETTINGS)
            assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
            state = storage.ledger(3)
            assert state is not None
            await add(storage, state, range(COUNT, COUNT + EACH))
            await storage.checkpoint()
            assert await found_ids(storage, 3, COUNT + 50) == list(range(COUNT + EACH))
            await storage.close()

    asyncio.run(main())


def test_a_second_compaction_has_nothing_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        await storage.compact(COMPACTED_BELOW)
        logs = entry_logs(tmp_path)
        assert len(logs) == 1
        done = await storage.compact(COMPACTED_BELOW)
        assert (done.files_removed, done.copied_bytes) == (0, 0)
        await delete(storage, [3])
        assert (await storage.compact(COMPACTED_BELOW)).copied_bytes == 64, "no more than a header"
        assert (await storage.compact(COMPACTED_BELOW)).copied_bytes == 0
        assert sum(path.stat().st_size for path in (tmp_path / "ledgers" / "entry-logs").iterdir()) == 64
        await storage.close()

    asyncio.run(main())


def test_a_compaction_ends_also_if_an_entry_log_has_no_space_for_a_block(tmp_path: Path) -> None:
    """Each run fills a log with what it moves first, and gets to every ledger of a file in the end."""

    async def main() -> None:
        storage = await with_garbage(tmp_path, deleted=(0, 1, 3), entry_log_bytes_max=1)
        async with asyncio.timeout(60):
            done = await storage.compact(COMPACTED_BELOW)
        assert (done.refusal, done.files_removed > 0) == ("", True)
        assert select(await storage.space(), COMPACTED_BELOW, 2**40, 2**40).files == []
        for ledger_id in (2, 4):
            assert await found_ids(storage, ledger_id, COUNT) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_checkpoints_during_a_compaction_go_into_another_entry_log(
    tmp_path: Path, both_storages: None
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path / "bookie", entry_log_bytes_max=1 << 20, deleted=[0, 1, 2])
        run = begun(storage)
        state = storage.ledger(3)
        assert state is not None
        await add(storage, state, range(COUNT, COUNT + EACH))
        await storage.checkpoint()
        run.finish()
        await storage.remove_dead_logs()
        assert await found_ids(storage, 3, COUNT + 50) == list(range(COUNT + EACH))
        assert await found_ids(storage, 4, COUNT + 50) == list(range(COUNT))
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed")
        await storage.close()
        storage = await open_storage(killed)
        assert await found_ids(storage, 3, COUNT + 50) == list(range(COUNT + EACH))
        assert await found_ids(storage, 4, COUNT + 50) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_what_changes_during_a_compaction_stays_where_it_is(tmp_path: Path) -> None:
    """A ledger is deleted, and a late entry falls between two that were copied together."""

    async def main() -> None:
        storage = await open_storage(tmp_path, **SETTINGS)
        gaps = storage.create_ledger(9, KEY)
        await add(storage, gaps, [0, 1, 2, 6, 7, 8])
        await interleaved(storage)
        await delete(storage, [0, 1, 2])
        run = begun(storage)
        await add(storage, gaps, [4])
        await delete(storage, [4])
        before = places(storage, 9)
        run.finish()
        await storage.remove_dead_logs()
        assert places(storage, 9) == before
        assert await found_ids(storage, 9, 10) == [0, 1, 2, 4, 6, 7, 8]
        assert await found_ids(storage, 3, COUNT) == list(range(COUNT))
        assert places(storage, 4) == []
        await storage.compact(COMPACTED_BELOW)
        assert places(storage, 9) != before
        assert await found_ids(storage, 9, 10) == [0, 1, 2, 4, 6, 7, 8]
        await storage.close()

    asyncio.run(main())


def test_a_read_that_holds_an_old_place_finds_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS, read_cache_bytes_max=0)
        honest: Callable[[EntryLogReader, int, Sequence[Interval]], list[Block]] = EntryLogReader.read
        compacted: list[bool] = []

        def read(reader: EntryLogReader, ledger_id: int, intervals: Sequence[Interval]) -> list[Block]:
            if not compacted:
                compacted.append(True)
                compacted_now(storage)
            return honest(reader, ledger_id, intervals)

        monkeypatch.setattr(EntryLogReader, "read", read)
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        assert compacted
        await storage.close()

    asyncio.run(main())


def test_a_list_of_entries_made_during_a_compaction_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        honest, runs = Index.intervals, [begun(storage)]

        def intervals(index: Index, ledger_id: int, first: int = 0, last: int = 2**62) -> Iterator[Interval]:
            for found in honest(index, ledger_id, first, last):
                yield found
                if runs:
                    runs.pop().finish()
                    yield from honest(index, ledger_id, found.first + 1, last)
                    return

        monkeypatch.setattr(Index, "intervals", intervals)
        state = storage.ledger(3)
        assert state is not None
        assert await storage.entry_ranges(state) == [(0, COUNT - 1)]
        assert not runs
        await storage.close()

    asyncio.run(main())


def test_a_damaged_file_stays_and_its_damage_is_no_absence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS, read_cache_bytes_max=0, deleted=[0, 1, 2])
        bad = places(storage, 3)[2]
        path = tmp_path / "ledgers" / "entry-logs" / f"{bad.log_id:016x}.log"
        content = bytearray(path.read_bytes())
        content[bad.offset + 60] ^= 1
        path.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            await storage.compact(COMPACTED_BELOW)
            await storage.compact(COMPACTED_BELOW)
        assert caplog.text.count("compaction leaves a file as it is") == 1
        assert f"{path} is damaged at offset {bad.offset}" in caplog.text
        assert path.exists()
        assert places(storage, 3)[2] == bad
        state = storage.ledger(3)
        assert state is not None
        for each in range(COUNT):
            if bad.first <= each <= bad.last:
                with pytest.raises(StorageError):
                    await storage.read(state, each)
            else:
                assert await storage.read(state, each) is not None
        assert await found_ids(storage, 4, COUNT) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        *product(["sync_error"], ["compaction.tmp", "entry-logs", "index", "ledger-states"]),
        *product(["write_error"], ["compaction.tmp", "ledger-states"]),
    ],
)
def test_a_disk_that_fails_in_a_compaction_loses_nothing(kind: str, part: str) -> None:
    """The storage ends, as after any failed write, and the next process has everything."""
    home, disk = Path("/bookie"), new_disk(1, timing=DiskTiming())

    async def main() -> None:
        storage = await with_garbage(home, disk, **SETTINGS)
        disk.faults.arm(kind, part)  # type: ignore[arg-type]
        with pytest.raises(DiskFailedError):
            await storage.compact(COMPACTED_BELOW)
        assert isinstance(storage.failed, DiskFailedError)
        await storage.close()

    run_virtual(main())
    disk.power_cut()

    async def again() -> None:
        storage = await open_storage(home, disk, **SETTINGS)
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.compact(COMPACTED_BELOW)
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        names = disk.list(home / "ledgers" / "entry-logs")
        assert "compaction.tmp" not in names
        assert len(names) <= 2, names
        await storage.close()

    run_virtual(again())


def test_a_full_disk_is_compacted_with_the_reserve() -> None:
    home, disk = Path("/bookie"), new_disk(1, timing=DiskTiming())

    async def main() -> None:
        storage = await with_garbage(home, disk, **SETTINGS, reserve_bytes=64 * 1024)
        full = disk.capacity_bytes = disk.used_bytes + 64  # too little for what lives
        await storage.check_disk()
        done = await storage.compact(COMPACTED_BELOW)
        assert "needs" in done.refusal and "compaction.tmp" not in done.refusal
        storage._upkeep._set_writable(False)
        done = await storage.compact(COMPACTED_BELOW)
        assert done.refusal == ""
        assert done.files_removed > 1
        await storage.check_disk()
        assert disk.used_bytes < full - 10_000, "and the reserve was taken back"
        assert storage.writable
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.close()

    run_virtual(main())


def test_a_file_that_cannot_be_opened_stays_and_the_others_are_compacted(tmp_path: Path) -> None:
    """It was moved to another disk, and a link does not lead there."""

    async def main() -> None:
        storage = await with_garbage(tmp_path / "bookie", **SETTINGS)
        await storage.close()
        first = tmp_path / "bookie" / "ledgers" / "entry-logs" / entry_logs(tmp_path / "bookie")[0]
        first.rename(tmp_path / "elsewhere")
        first.symlink_to(tmp_path / "elsewhere")
        storage = await open_storage(tmp_path / "bookie", **SETTINGS)
        assert first not in {each.path for each in await storage.space()}
        assert (await storage.compact(COMPACTED_BELOW)).files_removed > 1
        assert first.is_symlink() and storage.failed is None
        found = {place.log_id for place in places(storage, 3)}
        assert len(found) == 2 and 1 in found
        await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("own_disk", [True, False], ids=["a disk of its own", "the same disk"])
def test_a_nearly_full_disk_of_the_journal_is_emptied_to_the_other_one(own_disk: bool) -> None:
    """Entries that are written once fill it although every ledger lives."""
    home, disk = Path("/bookie"), new_disk(1, timing=DiskTiming())
    journal = home / "journal"

    def journal_files() -> list[str]:
        return [each for each in disk.list(journal) if each.endswith(".journal")]

    def free_space(directory: Path) -> tuple[int, int]:
        """93 of 100 files fit until the first ones are removed; the other disk is half full."""
        used = 93 - count + len(journal_files()) if directory == journal or not own_disk else 50
        return 100 * 2**20, (100 - used) * 2**20

    async def main() -> None:
        nonlocal count
        storage = await open_storage(
            home, disk, single_write_bytes_min=1, disk_usage_max=0.95, disk_usage_writable=0.92
        )
        await interleaved(storage)
        files = journal_files()
        count = len(files)
        assert count >= 3
        disk.free_space = free_space  # type: ignore[method-assign]
        for writable in (True, False):
            storage._upkeep._set_writable(writable)
            assert (await storage.compact(0.2)).refusal == ""
        if own_disk:
            assert journal_files() == files[-1:], "all but the one that is written"
            assert disk.list(home / "ledgers" / "entry-logs")
        else:
            assert journal_files() == files
        for ledger_id in range(LEDGERS):
            assert await found_ids(storage, ledger_id, COUNT + 5) == list(range(COUNT))
        await storage.close()

    count = 0
    run_virtual(main())


def test_a_disk_without_room_refuses_a_compaction_and_everything_goes_on() -> None:
    home, disk = Path("/bookie"), new_disk(1, timing=DiskTiming())

    async def main() -> None:
        storage = await with_garbage(home, disk, **SETTINGS, reserve_bytes=0)
        before = entry_logs_of()
        free_space = disk.free_space
        disk.free_space = lambda directory: (2**40, 2**39)  # type: ignore[method-assign]  # more than there is
        disk.capacity_bytes = disk.used_bytes + 64
        done = await storage.compact(COMPACTED_BELOW)
        assert "compaction stopped, and everything stays readable: no space left" in done.refusal
        assert await storage.remove_dead_logs() == 0
        assert entry_logs_of() == before
        assert storage.failed is None
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        disk.capacity_bytes = None
        disk.free_space = free_space  # type: ignore[method-assign]
        assert (await storage.compact(COMPACTED_BELOW)).refusal == ""
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.close()

    def entry_logs_of() -> list[str]:
        return disk.list(home / "ledgers" / "entry-logs")

    run_virtual(main())


def test_reads_go_on_after_a_compaction_that_met_a_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index could not be opened again then, and nothing is written that would have it opened."""
    home, disk, change_index = Path("/bookie"), new_disk(1, timing=DiskTiming()), CompactionRun._change_index

    def without_descriptors(self: CompactionRun) -> None:
        disk.opens_files = False
        change_index(self)

    async def main() -> None:
        storage = await with_garbage(home, disk, **SETTINGS)
        monkeypatch.setattr(CompactionRun, "_change_index", without_descriptors)
        assert "too many open files" in (await storage.compact(COMPACTED_BELOW)).refusal
        await storage.check_disk()
        assert isinstance(storage.shortage, TooManyFilesError)
        assert not storage.writable
        disk.opens_files = True
        await storage.check_disk()
        assert storage.shortage is None
        assert storage.writable
        await storage.forget_blocks()
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.close()

    run_virtual(main())


def test_a_compaction_that_is_cancelled_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        before = entry_logs(tmp_path)
        pausing = asyncio.Event()

        async def pause(_self: Pace, _done_bytes: int) -> None:
            pausing.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Pace, "after", pause)
        task = asyncio.create_task(storage.compact(COMPACTED_BELOW))
        await pausing.wait()
        assert "compaction.tmp" in entry_logs(tmp_path)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await storage.checkpoint()
        await storage.remove_dead_logs()
        assert entry_logs(tmp_path) == before
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_a_start_removes_what_a_compaction_has_left(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path / "bookie", **SETTINGS)
        begun(storage)
        assert "compaction.tmp" in entry_logs(tmp_path / "bookie")
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed")
        await storage.close()
        storage = await open_storage(killed, **SETTINGS)
        assert "compaction.tmp" not in entry_logs(killed)
        assert await found_ids(storage, 3, COUNT + 5) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_files_with_the_least_live_bytes_come_first() -> None:
    files = [
        FileSpace(number, Path(f"/{number}.log"), 1000, {1: live})
        for number, live in enumerate((900, 300, 0, 100, 250))
    ]

    def chosen(threshold: float, bytes_max: int, free_bytes: int) -> list[int]:
        return [each.log_id for each in select(files, threshold, bytes_max, free_bytes).files]

    assert chosen(0.8, 10_000, 10_000) == [2, 3, 4, 1]
    assert chosen(0.2, 10_000, 10_000) == [2, 3]
    assert chosen(0.8, 400, 10_000) == [2, 3, 4]
    assert chosen(0.8, 10_000, 120) == [2, 3]
    assert chosen(0.95, 10, 10_000) == [2]
    assert select(files[:1], 0.95, 10_000, 500).unfit is files[0]
    assert select(files[:1], 0.8, 10_000, 500).unfit is None


def test_a_file_that_is_written_is_synced_before_the_index_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        order: list[str] = []
        honest_sync, honest_move = type(_file(storage)).sync, Index.move

        def sync(file: DiskFile) -> None:
            order.append(f"sync {file.path.name}")
            honest_sync(file)  # type: ignore[arg-type]

        def move(*args: object) -> bool:
            order.append("move")
            return honest_move(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(type(_file(storage)), "sync", sync)
        monkeypatch.setattr(Index, "move", move)
        await storage.compact(COMPACTED_BELOW)
        assert order.index("move") > max(at for at, what in enumerate(order) if what == "sync compaction.tmp")
        await storage.close()

    asyncio.run(main())


def _file(storage: LedgerStorage) -> DiskFile:
    file = storage._parts.writer._file
    assert file is not None
    return file


def test_after_the_end_no_file_is_removed(tmp_path: Path) -> None:
    """A compaction that is still under way asks for it."""

    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        await storage.close()
        assert await storage.remove_dead_logs() == 0

    asyncio.run(main())


def test_the_first_compaction_waits_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it noted without one would be there without the ledgers that only the journal knows."""

    async def main() -> None:
        storage = await with_garbage(tmp_path, **SETTINGS)
        await storage.close()
        storage = await open_storage(tmp_path, **SETTINGS)
        run, generation = storage._parts.checkpointer.run, storage._parts.checkpointer.generation

        def full(_job: object) -> None:
            raise DiskFullError("no space")

        monkeypatch.setattr(storage._parts.checkpointer, "run", full)
        refused = await storage.compact(COMPACTED_BELOW)
        assert "waits for a checkpoint" in refused.refusal and not refused.files_removed
        monkeypatch.setattr(storage._parts.checkpointer, "run", run)
        assert (await storage.compact(COMPACTED_BELOW)).files_removed
        assert storage._parts.checkpointer.generation > generation
        await storage.close()

    asyncio.run(main())
