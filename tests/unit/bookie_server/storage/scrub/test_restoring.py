"""What the index has lost is put back, durably; what has changed since it was found stays as it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFailedError, DiskFullError, StorageError
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.file_walk import UnindexedBlock
from bookie_server.storage.scrub.marking import RepairMarks
from bookie_server.storage.scrub.record import ScrubPass
from bookie_server.storage.scrub.scrubber import Scrubber, ScrubConfig
from bookie_server.storage.scrub.walk import BEGINNING, Position
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths
from ledger.environment import SystemEnvironment
from ledger.errors import LogStoreError
from tests.helpers.bookie.lost_intervals import lose_intervals, lose_log_records, places_of, unindexed
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    copy_as_after_kill,
    durable,
    found_ids,
    open_storage,
    small_config,
)
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

COUNT = 120
LATE = [3, 5, 77]


async def filled(home: Path, *disk: Disk, **settings: object) -> LedgerStorage:
    """Ledgers 1 and 2, with entries added late, in several blocks."""
    storage = await open_storage(home, *disk, entry_log_bytes_max=8192, **settings)
    for ledger_id in (1, 2):
        state = storage.create_ledger(ledger_id, KEY)
        await add(storage, state, [each for each in range(COUNT) if each not in LATE])
        await storage.checkpoint()
        await add(storage, state, LATE)
        await storage.checkpoint()
    return storage


def index_of(storage: LedgerStorage) -> Index:
    return storage._parts.index


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(main())


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, method: str, error: LogStoreError) -> Iterator[None]:
    """This method of the index raises the error."""

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Index, method, fail)
        yield


@pytest.mark.parametrize("chosen", [lambda _: True, lambda each: each.first in (4, 5, 78)])
def test_lost_entries_are_found_again_also_after_a_restart(
    tmp_path: Path, both_storages: None, chosen: Callable[[object], bool]
) -> None:
    async def main() -> None:
        storage = await filled(tmp_path / "bookie")
        lost = lose_intervals(index_of(storage), 2, chosen)
        state = storage.ledger(2)
        assert state is not None
        await storage.forget_blocks()
        assert await storage.read(state, 4) is None
        found = await unindexed(storage)
        assert await storage.restore_blocks(found) == found != []
        assert places_of(found) == {(each.log_id, each.offset) for each in lost}
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        assert await unindexed(storage) == []
        assert await storage.restore_blocks(found) == [], "once is enough"
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed")
        await storage.close()
        for home in (tmp_path / "bookie", killed):
            storage = await open_storage(home)
            assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
            state = storage.ledger(2)
            assert state is not None
            assert await storage.entry_ranges(state) == [(0, COUNT - 1)]
            await storage.close()

    run(main)


def test_a_file_with_restored_entries_is_in_use(tmp_path: Path) -> None:
    """All that the index has of the ledger was lost, also in which files it lives."""

    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        lose_log_records(index_of(storage), 2)
        await storage.restore_blocks(await unindexed(storage))
        await storage.remove_dead_logs()
        await storage.close()
        storage = await open_storage(tmp_path)
        await storage.remove_dead_logs()
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_a_compaction_keeps_what_was_restored_since_it_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has copied all that the index had of the ledger, so that the file would have nothing live any more."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        for ledger_id in (1, 2):
            await add(storage, storage.create_ledger(ledger_id, KEY), range(COUNT))
        await storage.checkpoint()
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        lost = lose_intervals(index_of(storage), 2, lambda each: each.first == 0)
        restored: list[UnindexedBlock] = []

        async def restore(_pace: Pace, _written: int) -> None:
            if not restored:
                restored.extend(await storage.restore_blocks(await unindexed(storage)))

        monkeypatch.setattr(Pace, "after", restore)
        await storage.compact(COMPACTED_BELOW)
        assert places_of(restored) == {(each.log_id, each.offset) for each in lost}
        await storage.close()
        storage = await open_storage(tmp_path)
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_a_ledger_that_was_deleted_since_is_not_restored(tmp_path: Path, both_storages: None) -> None:
    """The deletion is not even in the index when the restoration begins."""

    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        found = await unindexed(storage)
        await durable(partial(storage.delete_ledger, 2))
        assert await storage.restore_blocks(found) == []
        assert list(index_of(storage).intervals(2)) == []
        await storage.close()

    run(main)


def test_a_file_that_was_removed_since_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        found = await unindexed(storage)
        paths = StoragePaths.of(small_config(tmp_path))
        for each in found:
            path_of(SystemDisk(), paths, each.log_id).unlink(missing_ok=True)
        assert await storage.restore_blocks(found) == []
        assert storage.failed is None
        await storage.close()

    run(main)


def test_a_block_that_was_moved_since_stays_where_it_is(tmp_path: Path) -> None:
    """The walk saw neither the old interval nor the new one."""

    async def main() -> None:
        storage = await filled(tmp_path)
        index = index_of(storage)
        records = list(index._store.scan(b"I", b"J"))
        lose_intervals(index, 2)
        found = await unindexed(storage)
        index._store.write(records)
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        assert (await storage.compact(1.0)).copied_bytes > 0
        there = list(index.intervals(2))
        assert await storage.restore_blocks(found) == []
        assert list(index.intervals(2)) == there
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_what_a_start_has_replayed_is_not_lost(tmp_path: Path, both_storages: None) -> None:
    """A crash may keep the first writes of a checkpoint: of some of its blocks the end, and not the intervals.

    Their entries are in memory then, from the journal, until the next checkpoint.
    """

    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie")
        state = storage.create_ledger(2, KEY)
        await add(storage, state, [each for each in range(COUNT) if each not in LATE])
        await storage.checkpoint()
        journal = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed") / "ledgers" / "log-mark"
        mark = journal.read_bytes()
        await add(storage, state, LATE)
        before = list(index_of(storage).intervals(2))
        await storage.checkpoint()
        after = [each for each in index_of(storage).intervals(2) if each.first in LATE]
        assert after and not {*after} & {*before}
        lose_intervals(index_of(storage), 2, lambda each: each in after)
        index_of(storage).sync(index_of(storage).generation())
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "again")
        (killed / "ledgers" / "log-mark").write_bytes(mark)
        await storage.close()
        storage = await open_storage(killed)
        found = await unindexed(storage)
        if found:  # not if they stay in the journal, where they come after the log mark
            assert {entry_id for each in found for entry_id in each.ids} == {*LATE}
        assert await storage.restore_blocks(found) == []
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_a_full_disk_changes_nothing_and_a_later_try_restores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, both_storages: None
) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        found = await unindexed(storage)
        full = DiskFullError("no space left for the index", path=tmp_path)
        with failing(monkeypatch, "sync", full), pytest.raises(DiskFullError):
            await storage.restore_blocks(found)
        assert storage.failed is None
        await storage.restore_blocks(found)
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_an_index_that_a_full_disk_has_stopped_goes_on_once_there_is_space() -> None:
    """There is no reserve. The checkpoint before has nothing to store, so only the index needs space."""

    async def main() -> None:
        disk = new_disk()
        storage = await filled(Path("/bookie"), disk, reserve_bytes=0)
        lost = lose_intervals(index_of(storage), 2)
        index_of(storage).sync(index_of(storage).generation())
        found = await unindexed(storage)
        assert places_of(found) == {(each.log_id, each.offset) for each in lost}
        disk.capacity_bytes = disk.used_bytes
        with pytest.raises(DiskFullError):
            await storage.restore_blocks(found)
        disk.capacity_bytes = None
        await storage.check_disk()
        assert storage.failed is None
        await storage.restore_blocks(found)
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()
        assert disk.open_files() == 0

    run_virtual(main())


def test_a_failing_write_ends_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        found = await unindexed(storage)
        failure = DiskFailedError("cannot write the index", path=tmp_path, missing=False)
        with failing(monkeypatch, "sync", failure), pytest.raises(DiskFailedError):
            await storage.restore_blocks(found)
        assert storage.failed is failure
        await storage.close()

    run(main)


class NoMarks:
    async def mark(self, ledger_id: int) -> None:
        raise AssertionError(f"ledger {ledger_id} is marked, and nothing is damaged")


def scrubber_of(storage: LedgerStorage, home: Path) -> Scrubber:
    paths, config = StoragePaths.of(small_config(home)), ScrubConfig(interval_s=3600.0, bytes_per_s=2**40)
    marks = cast(RepairMarks, NoMarks())
    return Scrubber(storage, SystemDisk(), paths, marks, config, SystemEnvironment())


def test_a_pass_that_is_asked_for_during_another_one_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that one has found sound already may not be so any more."""
    began: list[int] = []
    check_index = Scrubber._check_index

    async def asking(scrubber: Scrubber, current: ScrubPass, position: Position) -> Any:
        if position == BEGINNING:
            began.append(len(began))
            if len(began) == 1:
                scrubber.scrub_soon()
        return await check_index(scrubber, current, position)

    monkeypatch.setattr(Scrubber, "_check_index", asking)

    async def main() -> None:
        storage = await filled(tmp_path)
        scrubber = scrubber_of(storage, tmp_path)
        first = await scrubber.scrub_now()
        async with asyncio.timeout(30.0):
            while len(began) < 2 or scrubber.record.last in (None, first):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not scrubber._asked.is_set(), "one pass was asked for"
        await scrubber.close()
        await storage.close()

    run(main)


def test_a_scrubber_reports_what_it_has_restored_and_what_it_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        storage = await filled(tmp_path)
        scrubber = scrubber_of(storage, tmp_path)
        sound = await scrubber.scrub_now()
        assert (sound.unindexed_blocks, sound.restored_blocks) == (0, 0)
        lost = len(lose_intervals(index_of(storage), 2, lambda each: each.first in LATE))
        with failing(monkeypatch, "add_blocks", DiskFullError("no space left", path=tmp_path)):
            full = await scrubber.scrub_now()
        assert (full.unindexed_blocks, full.restored_blocks) == (1, 0)
        assert "entries of 1 intact blocks seem to be missing in the index" in caplog.text
        assert "no space left; the next pass tries again" in caplog.text
        restored = await scrubber.scrub_now()
        assert (restored.unindexed_blocks, restored.restored_blocks) == (1, 1)
        assert lost == len(LATE)
        assert (
            f"the index had lost entries 3 to 77 of ledger 2, which are intact in {tmp_path}" in caplog.text
        )
        assert "the index had lost entries of 1 intact blocks, and leads to those of 1 again" in caplog.text
        assert (await scrubber.scrub_now()).unindexed_blocks == 0
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await scrubber.close()
        await storage.close()

    run(main)


def test_a_damaged_index_is_reported_once_and_marks_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The ids with which the scrubber looks for what can still be read may be those of no ledger."""

    async def main() -> None:
        storage = await filled(tmp_path)
        with failing(monkeypatch, "all_intervals", StorageError("the index is damaged")):
            scrubber = scrubber_of(storage, tmp_path)
            found = await scrubber.scrub_now()
            await scrubber.close()
        assert found.index_damaged
        assert (found.damaged_blocks, found.damaged_ledgers) == (0, ())
        await storage.close()

    run(main)
    assert caplog.text.count("the index is damaged; docs/operations.md#a-damaged-index") == 1
    assert "what happens now" not in caplog.text


def test_files_that_cannot_be_listed_are_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def unknown(_: LedgerStorage) -> None:
        raise DiskFailedError("cannot read ledger-states", path=tmp_path, missing=False)

    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(index_of(storage), 2)
        monkeypatch.setattr(LedgerStorage, "block_files", unknown)
        scrubber = scrubber_of(storage, tmp_path)
        done = await scrubber.scrub_now()
        assert done.blocks > 0 and done.unindexed_blocks == 0
        assert "are not checked in this pass: cannot read ledger-states" in caplog.text
        await scrubber.close()
        await storage.close()

    run(main)
