"""A new index for a bookie that serves on: what it finds, what may change during it, and when the old one stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFailedError, DiskFullError, IndexDamagedError, StorageError
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.entry_logs.scan import FoundBlock
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN
from bookie_server.storage.rebuild import running
from bookie_server.storage.rebuild.running import Rebuild
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.storage_paths import StoragePaths
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    copy_as_after_kill,
    durable,
    fence,
    found_ids,
    open_storage,
)
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_virtual

pytestmark = pytest.mark.usefixtures("both_storages")

SETTINGS: dict[str, Any] = {"entry_log_bytes_max": 48 * 1024}
EACH, ROUNDS = 60, 6
COUNT = EACH * ROUNDS


async def filled(home: Path, *disk: SimulatedDisk) -> LedgerStorage:
    """Ledgers 1 to 4 over several files; 3 is fenced, 4 deleted."""
    storage = await open_storage(home, *disk, **SETTINGS)
    for step in range(ROUNDS):
        for ledger_id in (1, 2, 3, 4):
            state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
            await add(storage, state, range(EACH * step, EACH * (step + 1)))
        await storage.checkpoint()
    fenced = storage.ledger(3)
    assert fenced is not None
    await fence(storage, fenced)
    await durable(partial(storage.delete_ledger, 4))
    await storage.checkpoint()
    return storage


def lose_intervals(storage: LedgerStorage, ledger_id: int) -> None:
    """As an index that has forgotten what it once synced."""
    storage._parts.index.remove_entries(ledger_id)


async def holds_all(storage: LedgerStorage) -> None:
    for ledger_id in (1, 2, 3):
        assert await found_ids(storage, ledger_id, COUNT + 5) == list(range(COUNT))
    fenced, deleted = storage.ledger(3), storage.ledger(4)
    assert fenced is not None and fenced.fenced and fenced.master_key == KEY
    assert deleted is not None and deleted.deleted
    assert await found_ids(storage, 4, COUNT) == []
    assert list(storage.ledger_ids()) == [1, 2, 3]


def index_directories(home: Path) -> list[str]:
    return sorted(each.name for each in (home / "ledgers").glob("index*"))


def test_what_the_index_has_lost_is_found_again(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path / "bookie")
        lose_intervals(storage, 2)
        await storage.forget_blocks()
        assert await found_ids(storage, 2, COUNT - 1) == [], "denied, though it was acknowledged"
        rebuilt = await storage.rebuild_index()
        assert (rebuilt.ledgers, rebuilt.fenced, rebuilt.deleted, rebuilt.lost) == (3, 1, 1, [])
        assert rebuilt.entries == 3 * COUNT
        await holds_all(storage)
        assert not storage.limbo and index_directories(tmp_path / "bookie") == ["index"]
        state = storage.ledger(1)
        assert state is not None
        await add(storage, state, range(COUNT, COUNT + 3))
        await storage.checkpoint()
        killed = copy_as_after_kill(tmp_path / "bookie", tmp_path / "killed")
        await storage.close()
        for home in (tmp_path / "bookie", killed):
            storage = await open_storage(home, **SETTINGS)
            assert await found_ids(storage, 1, COUNT + 5) == list(range(COUNT + 3))
            assert await found_ids(storage, 2, COUNT + 5) == list(range(COUNT))
            await storage.close()

    asyncio.run(main())


async def with_damaged_index(home: Path) -> LedgerStorage:
    """Among the places of entries, which are most of it. The damage has been met."""
    storage = await open_storage(home, block_bytes_max=300)
    for ledger_id in (1, 2):
        await add(storage, storage.create_ledger(ledger_id, KEY), range(10 * COUNT))
    await storage.close()
    table = max((home / "ledgers" / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    storage = await open_storage(home, block_bytes_max=300)
    with pytest.raises(StorageError, match="damaged"):
        for ledger_id in (1, 2):
            await storage.held_ranges(ledger_id)
    return storage


def test_a_damaged_index_is_replaced_while_the_bookie_serves(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await with_damaged_index(tmp_path)
        await storage.rebuild_index()
        for ledger_id in (1, 2):
            assert await storage.held_ranges(ledger_id) == [(0, 10 * COUNT - 1)]
            assert await found_ids(storage, ledger_id, 10 * COUNT) == list(range(10 * COUNT))
        await storage.close()

    asyncio.run(main())


def test_a_bookie_that_has_noticed_damage_serves_on(tmp_path: Path) -> None:
    """RocksDB would compact after a few checkpoints, meet the damage and refuse all writes."""

    async def main() -> None:
        storage = await with_damaged_index(tmp_path)
        state = storage.create_ledger(3, KEY)
        for number in range(50):
            await add(storage, state, [number])
            await storage.checkpoint()
        assert await found_ids(storage, 3, 60) == list(range(50))
        await storage.rebuild_index()
        assert await storage.held_ranges(2) == [(0, 10 * COUNT - 1)]
        await storage.close()

    asyncio.run(main())


def test_what_changes_meanwhile_is_in_the_new_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its pieces: adds, late ones too, a fence, a new ledger, a deletion, checkpoints, garbage collections."""
    monkeypatch.setattr(running, "_PIECE_BYTES", 4096)
    monkeypatch.setattr(running, "_REST_BYTES_MAX", 8192)

    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(storage, 2)
        numbers = count()

        async def change(_self: Pace, _bytes: int) -> None:
            number = next(numbers)
            if number >= 60:
                return
            for ledger_id in (1, 5):
                state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
                first = (COUNT if ledger_id == 1 else 0) + 4 * number
                await add(storage, state, [first + 1, first + 3, first, first + 2])
            if number == 3:
                await durable(partial(storage.delete_ledger, 3))
            if number % 3 == 0:
                await storage.checkpoint()
                assert await storage.remove_dead_logs() == 0, "its files stay"
            if number == 10:
                state = storage.ledger(2)
                assert state is not None
                await fence(storage, state)

        monkeypatch.setattr(Pace, "after", change)
        await storage.rebuild_index()
        made = min(next(numbers), 60)
        assert made > 20
        for _ in range(2):
            assert await found_ids(storage, 1, COUNT + 4 * made + 5) == list(range(COUNT + 4 * made))
            assert await found_ids(storage, 2, COUNT + 5) == list(range(COUNT))
            assert await found_ids(storage, 3, COUNT) == await found_ids(storage, 4, COUNT) == []
            assert await found_ids(storage, 5, 4 * made + 5) == list(range(4 * made))
            fenced = storage.ledger(2)
            assert fenced is not None and fenced.fenced
            await storage.checkpoint()
            assert storage._parts.index.last_covered(3) == -1, "a deleted ledger has no entries"
            await storage.close()
            storage = await open_storage(tmp_path, **SETTINGS)
        await storage.compact(COMPACTED_BELOW)
        assert await found_ids(storage, 1, COUNT + 4 * made + 5) == list(range(COUNT + 4 * made))
        await storage.close()

    asyncio.run(main())


def test_reads_go_on_during_the_exchange(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        ended = False

        async def read() -> int:
            number = 0
            while not ended:
                await storage.forget_blocks()
                assert await found_ids(storage, 1, COUNT + 5) == list(range(COUNT))
                assert await storage.held_ranges(2) == [(0, COUNT - 1)]
                number += 1
            return number

        reading = asyncio.create_task(read())
        for _ in range(3):
            await storage.rebuild_index()
        ended = True
        assert await reading > 0
        await storage.close()

    asyncio.run(main())


def damage_a_file(home: Path, storage: LedgerStorage) -> None:
    interval = next(storage._parts.index.intervals(1))
    path = path_of(SystemDisk(), StoragePaths(home / "journal", home / "ledgers"), interval.log_id)
    with path.open("r+b") as file:
        file.seek(interval.offset + interval.block_bytes // 2)
        file.write(b"damage")


def test_the_old_index_stays_if_a_file_is_damaged(tmp_path: Path) -> None:
    """What a new one would not name would be denied; the old one leads there, and reads say that it is damaged."""

    async def main() -> None:
        storage = await filled(tmp_path)
        damage_a_file(tmp_path, storage)
        with pytest.raises(
            StorageError, match=r"the index stays as it is: .* is damaged from .*starts in limbo"
        ):
            await storage.rebuild_index()
        await storage.space()  # after what the worker had to do
        assert index_directories(tmp_path) == ["index"] and storage.failed is None and not storage.limbo
        with pytest.raises(StorageError):
            await found_ids(storage, 1, COUNT)
        assert await found_ids(storage, 2, COUNT) == list(range(COUNT))
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        await storage.compact(COMPACTED_BELOW)
        await storage.close()

    asyncio.run(main())


def test_a_removed_file_that_a_full_disk_kept_from_being_noted_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledgers are deleted. What the old index leads into is missed, whatever the reason is."""

    def full(_states: StateLog, _log_ids: object) -> None:
        raise DiskFullError("no space left", path=tmp_path)

    async def main() -> None:
        storage = await filled(tmp_path)
        for ledger_id in (1, 2, 3):
            await durable(partial(storage.delete_ledger, ledger_id))
        for _ in range(4):  # the journal goes on to other files
            await add(storage, storage.ledger(5) or storage.create_ledger(5, KEY), range(EACH * ROUNDS))
            await storage.checkpoint()
        with monkeypatch.context() as context:
            context.setattr(StateLog, "forget_logs", full)
            assert await storage.remove_dead_logs()
        assert (await storage.rebuild_index()).entries >= COUNT
        assert await found_ids(storage, 5, COUNT) == list(range(COUNT))
        parts = storage._parts
        path_of(parts.disk, parts.paths, next(iter(parts.index.intervals(5))).log_id).unlink()
        with pytest.raises(StorageError, match="is damaged from 0 to"):
            await storage.rebuild_index()
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_if_a_state_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Rebuild._states

    def states(rebuild: Rebuild) -> Any:
        found = honest(rebuild)
        for key in [each for each in found.records if each.endswith(b"\x02")]:
            del found.records[key]
        return found

    monkeypatch.setattr(Rebuild, "_states", states)

    async def main() -> None:
        storage = await filled(tmp_path)
        with pytest.raises(StorageError, match="ledger-states does not know ledger 2"):
            await storage.rebuild_index()
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_while_there_are_no_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk keeps the first checkpoint from making the file."""

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=tmp_path)

    async def main() -> None:
        storage = await open_storage(tmp_path)
        await add(storage, storage.create_ledger(1, KEY), range(COUNT))
        with monkeypatch.context() as patched:
            patched.setattr(StateLog, "_put", full)
            with pytest.raises(DiskFullError, match="ledger-states is not complete"):
                await storage.rebuild_index()
        assert storage.failed is None
        await storage.rebuild_index()
        assert await found_ids(storage, 1, COUNT) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_if_the_states_cannot_be_read(tmp_path: Path) -> None:
    """The next checkpoint writes them anew."""

    async def main() -> None:
        storage = await filled(tmp_path)
        states = tmp_path / "ledgers" / "ledger-states"
        states.rename(tmp_path / "elsewhere")
        states.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StorageError, match=r"the index stays as it is: cannot open .*ledger-states"):
            await storage.rebuild_index()
        assert storage.failed is None
        await storage.rebuild_index()
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_if_it_finds_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason: here blocks are passed over, when they are indexed and when they are proved."""
    for name in ("_add", "_prove"):
        honest = getattr(Rebuild, name)

        def pass_over(rebuild: Rebuild, found: FoundBlock, honest: Any = honest) -> None:
            if found.block.ledger_id != 2:
                honest(rebuild, found)

        monkeypatch.setattr(Rebuild, name, pass_over)

    async def main() -> None:
        storage = await filled(tmp_path)
        with pytest.raises(StorageError, match="does not find entry 0 of ledger 2, which the old one finds"):
            await storage.rebuild_index()
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())


def test_where_the_blocks_of_a_journal_file_end_is_known_from_the_first_checkpoint_on(tmp_path: Path) -> None:
    """A rebuild would take all of the file for read, and pass over what is written to it later."""

    async def main() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=1)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(10))
        await storage.checkpoint()
        ends = storage._parts.state_log.ends()
        assert [is_segment(each) for each in ends] == [True] and NOT_KNOWN not in ends.values()
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_while_the_end_of_the_current_journal_file_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=1)
        await add(storage, storage.create_ledger(1, KEY), range(10))
        await storage.checkpoint()
        ends = dict.fromkeys(storage._parts.state_log.ends(), NOT_KNOWN)
        monkeypatch.setattr(storage._parts.state_log, "ends", lambda: ends)
        with pytest.raises(StorageError, match="is still written to"):
            await storage.rebuild_index()
        assert await found_ids(storage, 1, 12) == list(range(10))
        await storage.close()

    asyncio.run(main())


def test_a_rebuild_that_is_cancelled_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        pausing = asyncio.Event()

        async def pause(_self: Pace, _bytes: int) -> None:
            pausing.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Pace, "after", pause)
        task = asyncio.create_task(storage.rebuild_index())
        await pausing.wait()
        assert "index.new" in index_directories(tmp_path)
        compaction = asyncio.create_task(storage.compact(COMPACTED_BELOW))
        await asyncio.sleep(0.05)
        assert not compaction.done(), "no compaction moves what is read"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
        assert (await compaction).files_removed > 0
        assert index_directories(tmp_path) == ["index"]
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())


def test_two_rebuilds_come_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await filled(tmp_path)
        lose_intervals(storage, 1)
        done = await asyncio.gather(storage.rebuild_index(), storage.rebuild_index())
        assert [each.entries for each in done] == [3 * COUNT] * 2
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    yield new_disk()


@pytest.mark.parametrize("left", [1024, 5000])
def test_a_full_disk_keeps_the_old_index(disk: SimulatedDisk, left: int) -> None:
    async def main() -> None:
        storage = await filled(Path("/bookie"), disk)
        disk.capacity_bytes = disk.used_bytes + left
        with pytest.raises(DiskFullError):
            await storage.rebuild_index()
        disk.capacity_bytes = None
        await storage.check_disk()
        assert storage.failed is None
        await holds_all(storage)
        await storage.rebuild_index()
        await holds_all(storage)
        await storage.close()

    run_virtual(main())


def test_an_exchange_that_fails_ends_the_storage(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next start finishes it."""

    async def main() -> None:
        storage = await filled(Path("/bookie"), disk)
        lose_intervals(storage, 2)
        honest = disk.rename_durably

        def rename(source: Path, target: Path) -> None:
            if source.name == "index.new":
                raise DiskFailedError(f"cannot rename {source}", path=source, missing=False)
            honest(source, target)

        monkeypatch.setattr(disk, "rename_durably", rename)
        with pytest.raises(IndexDamagedError, match="start the bookie again"):
            await storage.rebuild_index()
        assert isinstance(storage.failed, IndexDamagedError)
        with pytest.raises(StorageError):
            await storage.forget_blocks()
            await found_ids(storage, 1, COUNT)
        await storage.close()
        monkeypatch.undo()
        disk.process_crash()
        storage = await open_storage(Path("/bookie"), disk, **SETTINGS)
        await holds_all(storage)
        await storage.close()

    run_virtual(main())


def test_the_log_of_a_compaction_that_met_a_full_disk_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index keeps its moves, and checkpoints write to a later log."""

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=tmp_path)

    async def main() -> None:
        storage = await open_storage(tmp_path, **SETTINGS)
        for ledger_id in (1, 2):
            await add(storage, storage.create_ledger(ledger_id, KEY), range(COUNT))
        await storage.checkpoint()
        await durable(partial(storage.delete_ledger, 1))
        await storage.checkpoint()
        changes = count()

        with monkeypatch.context() as patched:

            async def go_on(_pace: Pace, _written: int) -> None:
                if not next(changes):
                    await add(storage, storage.create_ledger(3, KEY), range(COUNT))
                    await storage.checkpoint()
                    patched.setattr(Index, "sync", full)

            patched.setattr(Pace, "after", go_on)
            assert "no space left" in (await storage.compact(COMPACTED_BELOW)).refusal
        assert next(changes) and await storage.remove_dead_logs()
        await storage.rebuild_index()
        await storage.forget_blocks()
        await storage.remove_dead_logs()
        for ledger_id in (2, 3):
            assert await found_ids(storage, ledger_id, COUNT) == list(range(COUNT))
        await storage.close()

    asyncio.run(main())


def test_the_old_index_stays_if_it_leads_to_an_unknown_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: a new index would deny what is there, and the file would be removed."""

    async def main() -> None:
        storage = await filled(tmp_path)
        [first, *_] = storage._parts.index.intervals(2)
        others = {each: end for each, end in storage._parts.state_log.ends().items() if each != first.log_id}
        monkeypatch.setattr(StateLog, "ends", lambda _log: others)
        with pytest.raises(StorageError, match=f"it leads to file {first.log_id:x}"):
            await storage.rebuild_index()
        await holds_all(storage)
        await storage.close()

    asyncio.run(main())
