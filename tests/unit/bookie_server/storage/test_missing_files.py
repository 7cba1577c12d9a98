"""A file that the index leads into and that is not there is noticed at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.marking import RepairMarks
from bookie_server.storage.scrub.record import ScrubPass, ScrubRecord, encode_scrub_record
from bookie_server.storage.scrub.scrubber import Scrubber, ScrubConfig
from bookie_server.storage.scrub.walk import Position
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths
from ledger.environment import SystemEnvironment
from tests.helpers.bookie.storage import KEY, add, durable, found_ids, open_storage, small_config

pytestmark = pytest.mark.usefixtures("both_storages")

COUNT = 600


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(main())


async def filled(home: Path) -> None:
    """Ledgers 1 to 3, each in other files than the next but one."""
    storage = await open_storage(home, entry_log_bytes_max=4096)
    for ledger_id in (1, 2, 3):
        await add(storage, storage.create_ledger(ledger_id, KEY), range(COUNT))
        await storage.checkpoint()
    await storage.close()


def file_of(storage: LedgerStorage, ledger_id: int) -> Path:
    parts = storage._parts
    [log_id, *_] = {each.log_id for each in parts.index.intervals(ledger_id)}
    parts.writer.end_log()
    path: Path = path_of(parts.disk, parts.paths, log_id)
    return path


def test_entries_of_a_removed_file_that_is_still_open_are_stored_again(tmp_path: Path) -> None:
    """Once a scrubber has missed it: what repair writes again must not be compared with a file that is no more."""

    async def add_all(storage: LedgerStorage) -> None:
        for ledger_id in (1, 2, 3):
            state = storage.ledger(ledger_id)
            assert state is not None
            await add(storage, state, range(COUNT))

    async def main() -> None:
        await filled(tmp_path)
        storage = await open_storage(tmp_path)
        path = file_of(storage, 1)
        await add_all(storage)  # repeated ones are compared with those that are stored, which opens the files
        path.unlink()
        await storage.forget_blocks()
        await add_all(storage)
        await storage.close()
        storage = await open_storage(tmp_path)
        assert storage.missing_files == []
        assert await found_ids(storage, 1, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_entries_are_not_written_to_a_removed_file_that_is_still_open(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=0)
        await add(storage, storage.create_ledger(1, KEY), range(COUNT))
        await storage.checkpoint()
        writer = storage._parts.writer
        path_of(storage._parts.disk, storage._parts.paths, writer.end.log_id).unlink()
        await add(storage, storage.create_ledger(2, KEY), range(COUNT))
        await storage.close()
        storage = await open_storage(tmp_path, single_write_bytes_min=0)
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await storage.close()

    run(main)


def test_a_missing_file_is_named_until_its_entries_are_stored_again(tmp_path: Path) -> None:
    async def main() -> None:
        await filled(tmp_path)
        storage = await open_storage(tmp_path)
        assert storage.missing_files == []
        path = file_of(storage, 1)
        await storage.close()
        path.unlink()
        storage = await open_storage(tmp_path)
        assert storage.missing_files == [path]
        for ledger_id in (1, 2, 3):
            state = storage.ledger(ledger_id)
            assert state is not None
            await add(storage, state, range(COUNT))  # as a worker of repair does
        await storage.close()
        storage = await open_storage(tmp_path)
        assert storage.missing_files == []
        await storage.close()

    run(main)


def test_a_file_without_a_live_ledger_is_not_missed(tmp_path: Path) -> None:
    """A crash may come between its removal and what notes that."""

    async def main() -> None:
        await filled(tmp_path)
        storage = await open_storage(tmp_path)
        path = file_of(storage, 1)
        living = {file_of(storage, ledger_id) for ledger_id in (2, 3)}
        await durable(partial(storage.delete_ledger, 1))
        await storage.close()
        if path not in living:
            path.unlink()
        storage = await open_storage(tmp_path)
        assert storage.missing_files == []
        await storage.close()

    run(main)


def test_an_index_that_cannot_be_read_does_not_keep_a_start_from_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise StorageError("the index is damaged")

    async def main() -> None:
        await filled(tmp_path)
        storage = await open_storage(tmp_path)
        path = file_of(storage, 1)
        await storage.close()
        path.unlink()
        monkeypatch.setattr(Index, "leads_into", damaged)
        storage = await open_storage(tmp_path)
        assert storage.missing_files == []
        await storage.close()

    run(main)


class Marks:
    def __init__(self) -> None:
        self.marked: set[int] = set()

    async def mark(self, ledger_id: int) -> None:
        self.marked.add(ledger_id)


def test_a_pass_begins_immediately_and_at_the_beginning(tmp_path: Path) -> None:
    """Although the last one is over, and one that was cut off is past the ledgers of the missing file."""
    last = ScrubPass(began_ms=SystemEnvironment().wall_us() // 1000)

    async def main() -> None:
        await filled(tmp_path)
        storage = await open_storage(tmp_path)
        path = file_of(storage, 1)
        await storage.close()
        path.unlink()
        paths = StoragePaths.of(small_config(tmp_path))
        record = ScrubRecord(current=last, position=Position(3, 0), last=replace(last, ended_ms=1))
        paths.scrub_record.write_bytes(encode_scrub_record(record))
        storage = await open_storage(tmp_path)
        marks = Marks()
        scrubber = Scrubber(
            storage,
            SystemDisk(),
            paths,
            cast(RepairMarks, marks),
            ScrubConfig(interval_s=3600.0, bytes_per_s=2**40),
            SystemEnvironment(),
            begins_anew=bool(storage.missing_files),
        )
        async with asyncio.timeout(30.0):
            while (found := scrubber.record.last) is None or found.ended_ms == 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert 1 in marks.marked and found.damaged_blocks
        await scrubber.close()
        await storage.close()

    run(main)
