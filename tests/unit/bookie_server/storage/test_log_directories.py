"""Several ledger directories: where entry logs go, and what one that is full or fails does to the others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.disk import DiskFile
from bookie_server.errors import DiskFailedError, DiskFullError, StorageError
from bookie_server.storage.background.last_look import LastLook
from bookie_server.storage.compaction.run import CompactionRun
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing.disk.disk import SimulatedDisk
from ledger.errors import ConfigurationError
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    durable,
    found_ids,
    open_storage,
    small_config,
)
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

HOME = Path("/bookie")
MORE = (HOME / "more-0", HOME / "more-1")
EACH = 42
"""Entries that end an entry log."""
SETTINGS: dict[str, Any] = {"entry_log_bytes_max": 1024}


def logs(disk: SimulatedDisk, directory: Path) -> list[int]:
    found = disk.list(directory / "entry-logs")
    return [int(name.removesuffix(".log"), 16) for name in found if name.endswith(".log")]


async def opened(disk: SimulatedDisk, more: tuple[Path, ...] = MORE, **settings: Any) -> LedgerStorage:
    return await open_storage(HOME, disk, more_ledger_directories=more, **(SETTINGS | settings))


async def filled(storage: LedgerStorage, rounds: range, ledger_id: int = 1) -> None:
    """An entry log's worth of entries in each round."""
    state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
    for each in rounds:
        await add(storage, state, range(EACH * each, EACH * (each + 1)))
        await storage.checkpoint()


def cannot_be_measured(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, *directories: Path) -> None:
    """As of a disk that is taken out: what was opened before may still be written to."""
    fails(disk, monkeypatch, "free_space", lambda path: path.parent in directories)


def fails(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, call: str, is_meant: Callable[[Path], bool]
) -> None:
    """Whatever this call of the disk is asked for paths that are meant."""
    sound = getattr(disk, call)

    def failing(path: Path) -> Any:
        if is_meant(path):
            raise DiskFailedError(f"cannot {call} {path}", path=path, missing=False)
        return sound(path)

    monkeypatch.setattr(disk, call, failing)


async def all_found(storage: LedgerStorage, rounds: int, ledger_id: int = 1) -> bool:
    await storage._reader.forget_all()
    return await found_ids(storage, ledger_id, EACH * rounds) == list(range(EACH * rounds))


def test_directories_with_equal_space_get_entry_logs_in_turn_and_all_are_read() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk)
        await filled(storage, range(6))
        assert [logs(disk, each) for each in (HOME / "ledgers", *MORE)] == [[1, 4], [2, 5], [3, 6]]
        assert await all_found(storage, 6)
        await storage.close()
        storage = await opened(disk)
        assert await all_found(storage, 6)
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("full", [HOME / "ledgers" / "entry-logs", MORE[0]])
def test_a_full_directory_gets_no_entry_log_until_it_has_space_again(full: Path) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk)
        disk.full_directories.add(full)
        await filled(storage, range(6))
        await storage.check_disk()
        assert storage.writable and storage.shortage is None
        home = full if full in MORE else HOME / "ledgers"
        assert logs(disk, home) == []
        assert await all_found(storage, 6)
        disk.full_directories.clear()
        await filled(storage, range(6, 9))
        assert len(logs(disk, home)) == 1
        assert await all_found(storage, 9)
        await storage.close()

    run_virtual(main())


def test_a_log_whose_directory_fills_up_ends_and_the_entries_go_to_another_one() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1], entry_log_bytes_max=64 * 1024)
        await filled(storage, range(1))
        disk.full_directories.add(HOME / "ledgers" / "entry-logs")
        await filled(storage, range(1, 3))
        assert (logs(disk, HOME / "ledgers"), logs(disk, MORE[0])) == ([1], [2])
        assert await all_found(storage, 3)
        await storage.close()

    run_virtual(main())


def test_when_all_are_full_the_checkpoint_waits_and_no_file_is_left_behind() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(2))
        disk.full_directories.update({HOME / "ledgers" / "entry-logs", MORE[0]})
        for _ in range(3):
            with pytest.raises(DiskFullError):
                await filled(storage, range(2, 3))
        await storage.check_disk()
        assert not storage.writable
        assert (logs(disk, HOME / "ledgers"), logs(disk, MORE[0])) == ([1], [2])
        disk.full_directories.clear()
        await storage.check_disk()
        assert storage.writable and await all_found(storage, 3)
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("kind", ["write_error", "sync_error"])
@pytest.mark.parametrize("number", range(1, 5))
def test_what_a_failed_directory_did_not_take_goes_to_another_one(
    kind: Any, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever write or sync it is: of the header, of the name, of a block."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        noticed: list[bool] = []
        storage.on_directory_failure = lambda: noticed.append(True)
        await filled(storage, range(1))
        disk.faults.arm(kind, str(MORE[0] / "entry-logs"), number=number)
        await filled(storage, range(1, 8))
        assert list(storage.failed_directories) == [MORE[0]]
        assert await all_found(storage, 8)
        before = logs(disk, MORE[0])
        await filled(storage, range(8, 11))
        assert logs(disk, MORE[0]) == before
        assert storage.failed is None and not noticed
        await storage.check_disk()
        await storage.check_disk()
        assert noticed == [True] and storage.writable
        assert [each.directory for each in storage.usage()] == [HOME / "journal", HOME / "ledgers"]
        await storage.close()
        storage = await opened(disk, MORE[:1])  # a restart tries it again
        assert not storage.failed_directories and await all_found(storage, 11)
        await filled(storage, range(11, 14))
        assert len(logs(disk, MORE[0])) > len(before)
        await storage.close()

    with caplog.at_level(logging.WARNING):
        run_virtual(main())
    assert [each.getMessage().split(",")[0] for each in caplog.records] == [
        f"ledger directory {MORE[0]} has failed"
    ]


def test_a_failure_of_the_directory_with_the_index_ends_the_storage() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk)
        disk.faults.arm("sync_error", "/ledgers/entry-logs")
        with pytest.raises(DiskFailedError):
            await filled(storage, range(6))
            raise storage.failed or AssertionError("it goes on")
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize(("kind", "number"), [("write_error", 1), ("sync_error", 1), ("sync_error", 2)])
def test_a_compaction_goes_on_in_another_directory(kind: Any, number: int) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        for each in range(4):
            for ledger_id in (1, 2, 3):
                await filled(storage, range(each, each + 1), ledger_id)
        for ledger_id in (2, 3):
            await durable(lambda done, deleted=ledger_id: storage.delete_ledger(deleted, done))
        await storage.checkpoint()
        storage._parts.directories._turn = 1
        disk.faults.arm(kind, str(MORE[0] / "entry-logs"), number=number)
        await storage.compact(COMPACTED_BELOW)
        assert list(storage.failed_directories) == [MORE[0]] and storage.failed is None
        assert await all_found(storage, 4)
        await storage.close()
        storage = await opened(disk, MORE[:1])
        assert disk.list(MORE[0] / "entry-logs").count("compaction.tmp") == 0
        assert await all_found(storage, 4)
        await storage.close()

    run_virtual(main())


def test_a_compaction_goes_to_the_directory_with_space(tmp_path: Path) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        for each in range(4):
            for ledger_id in (1, 2):
                await filled(storage, range(each, each + 1), ledger_id)
        await durable(lambda done: storage.delete_ledger(2, done))
        await storage.checkpoint()
        disk.full_directories.add(HOME / "ledgers" / "entry-logs")
        before = logs(disk, HOME / "ledgers")
        done = await storage.compact(COMPACTED_BELOW)
        assert not done.refusal and done.files_removed
        assert set(logs(disk, HOME / "ledgers")) <= set(before)
        assert await all_found(storage, 4)
        await storage.close()

    run_virtual(main())


def test_garbage_in_a_failed_directory_stays_and_harms_nothing() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(4))
        disk.faults.arm("sync_error", str(MORE[0] / "entry-logs"))
        await filled(storage, range(4, 7))
        assert storage.failed_directories
        left = logs(disk, MORE[0])
        await durable(lambda done: storage.delete_ledger(1, done))
        await filled(storage, range(1), 2)
        await storage.remove_dead_logs()
        assert logs(disk, MORE[0]) == left and storage.failed is None
        assert len(logs(disk, HOME / "ledgers")) == 1
        await storage.close()

    run_virtual(main())


def test_files_of_a_lost_directory_are_missing_and_never_absent() -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(4))
        await storage.close()
        for name in disk.list(MORE[0] / "entry-logs"):
            disk.remove(MORE[0] / "entry-logs" / name)
        storage = await open_storage(HOME, disk, **SETTINGS)
        assert [path.name for path in storage.missing_files] == [f"{each:016x}.log" for each in (2, 4)]
        state = storage.ledger(1)
        assert state is not None
        for entry_id in range(4 * EACH):
            try:
                assert await storage.read(state, entry_id) is not None
            except Exception as error:  # noqa: BLE001  # which it is, is asserted
                assert type(error).__name__ == "BlockDamagedError"
        await storage.close()

    run_virtual(main())


def test_directories_must_differ() -> None:
    with pytest.raises(ConfigurationError, match="different directories, two of them are /bookie/ledgers"):
        small_config(HOME, more_ledger_directories=(MORE[0], HOME / "ledgers"))
    with pytest.raises(ConfigurationError, match="/bookie/more-0 is given as lost and as one to use"):
        small_config(HOME, more_ledger_directories=MORE, lost_ledger_directories=MORE[:1])


@pytest.mark.parametrize(
    ("inner", "outer"), [("ledgers/more", "ledgers"), ("journal/a/b", "journal"), ("more-0/more", "more-0")]
)
def test_a_directory_inside_of_another_one_is_refused(inner: str, outer: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"directory {HOME / inner} is inside of {HOME / outer}, another one"
    ):
        small_config(HOME, more_ledger_directories=(HOME / inner, MORE[0]))


def test_the_journal_is_not_inside_of_a_ledger_directory() -> None:
    with pytest.raises(ConfigurationError, match="directory /a/journal is inside of /a, another one"):
        StorageConfig(journal_directory=Path("/a/journal"), ledger_directory=Path("/a"))


def test_a_larger_free_space_goes_first_and_a_nearly_full_disk_last(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"ledgers": (20_000, 5_000), "more-0": (200_000, 9_000), "more-1": (20_000, 4_000)}

    async def main() -> None:
        disk = new_disk()
        monkeypatch.setattr(disk, "free_space", lambda directory: free[directory.parent.name])
        storage = await opened(disk, disk_usage_max=0.95, disk_usage_writable=0.92)
        directories = storage._parts.directories
        assert directories.for_new_log().parent.name == "ledgers"
        free["ledgers"] = (20_000, 3_000)
        assert directories.for_new_log().parent.name == "more-1"
        free["more-1"] = free["ledgers"] = (20_000, 100)
        assert directories.for_new_log().parent.name == "more-0"
        free["more-0"], free["ledgers"] = (20_000, 500), (20_000, 501)
        assert directories.for_new_log().parent.name == "ledgers"
        free["more-0"], free["ledgers"] = (20_000, 5_001), (20_000, 5_000)  # one disk, and others write to it
        assert {directories.for_new_log().parent.name for _ in range(3)} == {"ledgers", "more-0"}
        monkeypatch.undo()
        await storage.close()

    run_virtual(main())


def test_a_compaction_without_space_names_the_directory_that_it_would_write_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it copies is in another one, where space would not help."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1], disk_usage_max=0.95, disk_usage_writable=0.92)
        for ledger_id in (1, 2):
            await add(storage, storage.create_ledger(ledger_id, KEY), range(EACH))
        await storage.checkpoint()
        await durable(lambda done: storage.delete_ledger(2, done))
        await storage.checkpoint()
        assert logs(disk, HOME / "ledgers") == [1] and not logs(disk, MORE[0])
        spaces = {"ledgers": (10**9, 100), "more-0": (10**9, 10**4)}
        monkeypatch.setattr(disk, "free_space", lambda path: spaces.get(path.parent.name, (10**9, 10**8)))
        done = await storage.compact(COMPACTED_BELOW)
        assert f"what lives in {HOME / 'ledgers'}/entry-logs/" in done.refusal
        assert f"and may use 0 in {MORE[0]}: free space on the disk of this ledger directory" in done.refusal
        monkeypatch.undo()
        await storage.close()

    run_virtual(main())


def test_the_current_log_ends_when_another_worker_notices_that_its_directory_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else all that an entry log takes would go on into a directory that nobody can read any more."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1], entry_log_bytes_max=64 * 1024)
        storage._parts.directories._turn = 1
        await filled(storage, range(1))
        path = MORE[0] / "entry-logs" / f"{1:016x}.log"
        before = disk.read_file(path)
        cannot_be_measured(disk, monkeypatch, MORE[0])
        await storage.check_disk()
        assert list(storage.failed_directories) == [MORE[0]]
        await filled(storage, range(1, 3))
        assert disk.read_file(path) == before and logs(disk, HOME / "ledgers") == [2]
        assert await all_found(storage, 3)
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("at", ["copied", "written"])
def test_a_compaction_ends_when_another_worker_notices_that_its_directory_has_failed(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        for each in range(4):
            for ledger_id in (1, 2):
                await filled(storage, range(each, each + 1), ledger_id)
        await durable(lambda done: storage.delete_ledger(2, done))
        await storage.checkpoint()
        storage._parts.directories._turn = 1
        step = CompactionRun._write if at == "copied" else CompactionRun.finish
        noticed: list[Path] = []

        def notice(run: CompactionRun) -> int:
            if not noticed:
                cannot_be_measured(disk, monkeypatch, MORE[0])
                storage._parts.directories.usages()
                noticed.append(run._directory.parent)
            return step(run)

        monkeypatch.setattr(CompactionRun, step.__name__, notice)
        before = logs(disk, MORE[0])
        await storage.compact(COMPACTED_BELOW)
        assert noticed == [MORE[0]] and list(storage.failed_directories) == [MORE[0]]
        assert set(logs(disk, MORE[0])) <= set(before)
        assert "compaction.tmp" not in disk.list(MORE[0] / "entry-logs")
        assert storage.failed is None and await all_found(storage, 4)
        await storage.close()
        assert not disk.open_files()

    run_virtual(main())


def test_directories_that_fail_when_they_are_measured_get_no_entry_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk)
        cannot_be_measured(disk, monkeypatch, *MORE)
        full = {HOME / "ledgers" / "entry-logs"}
        assert storage._parts.directories.for_new_log(full) in full
        assert set(storage.failed_directories) == set(MORE)
        await storage.close()

    run_virtual(main())


def test_garbage_in_a_failed_directory_is_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_into: list[int] = []
    keeps_nothing = LastLook.keeps_nothing

    async def looking(last_look: LastLook, log_id: int) -> bool:
        looked_into.append(log_id)
        return await keeps_nothing(last_look, log_id)

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(4))
        cannot_be_measured(disk, monkeypatch, MORE[0])
        await storage.check_disk()
        await durable(lambda done: storage.delete_ledger(1, done))
        await filled(storage, range(2), 2)
        monkeypatch.setattr(LastLook, "keeps_nothing", looking)
        await storage.remove_dead_logs()
        assert looked_into == [1, 3] and logs(disk, MORE[0]) == [2, 4]
        await storage.close()

    run_virtual(main())


def test_an_id_is_given_only_if_every_directory_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that only its directory knows may have it."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(1))
        await storage.close()
        disk.create(MORE[0] / "entry-logs" / f"{2:016x}.log").close()
        fails(disk, monkeypatch, "list", lambda path: path == MORE[0] / "entry-logs")
        with pytest.raises(DiskFailedError, match="cannot list"):
            await opened(disk, MORE[:1])

    run_virtual(main())


@pytest.mark.parametrize("deleted", [True, False])
def test_an_index_is_rebuilt_without_a_lost_directory_once_nothing_leads_there(deleted: bool) -> None:
    """Its ledgers are deleted, or their entries are stored again."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(4))
        await storage.close()
        for name in disk.list(MORE[0] / "entry-logs"):
            disk.remove(MORE[0] / "entry-logs" / name)
        storage = await open_storage(HOME, disk, **SETTINGS)
        with pytest.raises(StorageError, match="is damaged from 0 to"):
            await storage.rebuild_index()
        if deleted:
            await durable(lambda done: storage.delete_ledger(1, done))
        else:
            await filled(storage, range(4))
        await filled(storage, range(2), 2)
        assert (await storage.rebuild_index()).entries >= 2 * EACH
        assert await all_found(storage, 2, 2)
        assert deleted or await all_found(storage, 4)
        await storage.close()

    run_virtual(main())


def test_no_index_is_rebuilt_while_a_directory_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry logs may come back, with entries that the index has lost."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(4))
        await durable(lambda done: storage.delete_ledger(1, done))
        await filled(storage, range(1), 2)
        hidden = MORE[0] / "entry-logs"
        for name in ("list", "exists", "open_read"):
            fails(disk, monkeypatch, name, lambda path: hidden in (path, path.parent))
        await storage.remove_dead_logs()  # as far as there is anything to see
        with pytest.raises(StorageError, match="is damaged from 0 to"):
            await storage.rebuild_index()
        assert storage.failed is None and await all_found(storage, 1, 2)
        await storage.close()

    run_virtual(main())


def test_a_checkpoint_waits_if_one_directory_has_failed_and_all_others_are_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk)
        cannot_be_measured(disk, monkeypatch, MORE[0])
        await storage.check_disk()
        disk.full_directories.update({HOME / "ledgers" / "entry-logs", MORE[1]})
        with pytest.raises(DiskFullError):
            await filled(storage, range(1))
        assert storage.failed is None and not storage.writable
        disk.full_directories.clear()
        await storage.check_disk()
        assert storage.writable and await all_found(storage, 1)
        await storage.close()

    run_virtual(main())


def test_a_directory_that_fails_after_it_was_full_is_no_reason_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was appended there is given up in any case."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        storage._parts.directories._turn = 1
        file = MORE[0] / "entry-logs" / f"{1:016x}.log"
        made = disk.create

        def create(path: Path) -> DiskFile:
            found = made(path)
            if path == file:
                monkeypatch.setattr(found, "preallocate", preallocate)
            return found

        def preallocate(_offset: int, _size: int) -> None:
            raise DiskFullError(f"no space left in {file}", path=file)

        monkeypatch.setattr(disk, "create", create)
        fails(disk, monkeypatch, "remove", lambda path: path == file)
        await filled(storage, range(2))
        assert list(storage.failed_directories) == [MORE[0]] and storage.failed is None
        assert logs(disk, MORE[0]) == [1] and logs(disk, HOME / "ledgers") == [2, 3]
        assert await all_found(storage, 2)
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("kind", ["write_error", "sync_error"])
def test_the_log_that_a_start_goes_on_with_may_fail_with_its_directory(kind: Any) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1], entry_log_bytes_max=64 * 1024)
        storage._parts.directories._turn = 1
        await filled(storage, range(1))
        await storage.close()
        storage = await opened(disk, MORE[:1], entry_log_bytes_max=64 * 1024)
        disk.faults.arm(kind, str(MORE[0] / "entry-logs"))
        await filled(storage, range(1, 3))
        assert list(storage.failed_directories) == [MORE[0]] and storage.failed is None
        assert (logs(disk, HOME / "ledgers"), logs(disk, MORE[0])) == ([2], [1])
        assert await all_found(storage, 3)
        await storage.close()

    run_virtual(main())


@pytest.mark.parametrize("call", ["create", "remove_large", "rename"])
def test_whatever_a_compaction_does_in_a_directory_may_fail(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To remove what it has copied is asked for after the copying has failed."""

    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        for each in range(4):
            for ledger_id in (1, 2):
                await filled(storage, range(each, each + 1), ledger_id)
        await durable(lambda done: storage.delete_ledger(2, done))
        await storage.checkpoint()
        await storage.remove_dead_logs()
        storage._parts.directories._turn = 1
        copied = MORE[0] / "entry-logs" / "compaction.tmp"
        if call == "rename":
            renamed = disk.rename

            def rename(source: Path, target: Path) -> None:
                if source == copied:
                    raise DiskFailedError(f"cannot rename {source}", path=source, missing=False)
                renamed(source, target)

            monkeypatch.setattr(disk, "rename", rename)
        else:
            fails(disk, monkeypatch, call, lambda path: path == copied)
        if call == "remove_large":
            disk.faults.arm("write_error", str(copied))
        await storage.compact(COMPACTED_BELOW)
        assert list(storage.failed_directories) == [MORE[0]] and storage.failed is None
        assert await all_found(storage, 4)
        await storage.close()
        assert not disk.open_files()

    run_virtual(main())


def test_garbage_that_cannot_be_removed_fails_its_directory_and_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(3))
        await durable(lambda done: storage.delete_ledger(1, done))
        await filled(storage, range(2), 2)
        fails(disk, monkeypatch, "remove_large", lambda path: path.parent.parent == MORE[0])
        assert await storage.remove_dead_logs() == 2
        assert list(storage.failed_directories) == [MORE[0]] and storage.failed is None
        assert logs(disk, MORE[0]) == [2, 4]
        await storage.close()

    run_virtual(main())


def test_the_next_process_removes_the_garbage_of_a_directory_that_had_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        disk = new_disk()
        storage = await opened(disk, MORE[:1])
        await filled(storage, range(3))
        with monkeypatch.context() as failing:
            cannot_be_measured(disk, failing, MORE[0])
            await storage.check_disk()
        await durable(lambda done: storage.delete_ledger(1, done))
        await filled(storage, range(2), 2)
        await storage.remove_dead_logs()
        assert logs(disk, MORE[0]) == [2]
        await storage.close()
        storage = await opened(disk, MORE[:1])
        await storage.remove_dead_logs()
        assert logs(disk, MORE[0]) == [] and not storage.failed_directories
        await storage.close()

    run_virtual(main())
