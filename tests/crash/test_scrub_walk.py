"""A walk over what is stored finds each damaged block, and nothing else, in steps of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.walk import BEGINNING, BlockWalk, Damage, Position, Step
from bookie_server.storage.storage_paths import StoragePaths
from tests.helpers.bookie.storage import KEY, add, copy_as_after_kill, durable, open_storage, small_config

pytestmark = pytest.mark.usefixtures("either_storage")

LEDGERS = (1, 2, 5)
COUNT = 100


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed bookie with some ledgers in several entry logs."""
    directory = tmp_path_factory.mktemp("scrub") / "bookie"

    async def main() -> None:
        storage = await open_storage(directory, entry_log_bytes_max=8192)
        for first in range(0, COUNT, 50):
            for ledger_id in LEDGERS:
                state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
                await add(storage, state, range(first, first + 50))
            await storage.checkpoint()
        await storage.close()

    asyncio.run(main())
    return directory


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def walked(walk: BlockWalk, bytes_max: int) -> list[Step]:
    steps: list[Step] = []
    position: Position | None = BEGINNING
    while position is not None:
        steps.append(walk.step(position, bytes_max))
        position = steps[-1].next
    return steps


def damage_of(steps: Iterable[Step]) -> list[Damage]:
    return [each for step in steps for each in step.damage]


async def unreadable(storage: LedgerStorage) -> set[tuple[int, int]]:
    found = set()
    for ledger_id in LEDGERS:
        state = storage.ledger(ledger_id)
        assert state is not None
        for entry_id in range(COUNT):
            try:
                assert await storage.read(state, entry_id) is not None
            except StorageError:
                found.add((ledger_id, entry_id))
    return found


@pytest.mark.parametrize("bytes_max", [1, 5000, 10**9])
def test_what_is_intact_is_walked_once(filled: Path, bytes_max: int) -> None:
    paths = StoragePaths.of(small_config(filled))
    index = Index(SystemDisk().open_key_values(paths.index))
    try:
        steps = walked(BlockWalk(SystemDisk(), index, paths), bytes_max)
        intervals = [interval for _, interval in index.all_intervals()]
    finally:
        index.close()
    assert damage_of(steps) == []
    assert sum(step.blocks for step in steps) == len(intervals) > 10
    assert sum(step.block_bytes for step in steps) == sum(each.block_bytes for each in intervals)
    if bytes_max == 1:
        assert all(step.blocks == 1 for step in steps)


@pytest.mark.parametrize("bytes_max", [1, 10**9])
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_every_damaged_block_is_found_and_no_other(
    filled: Path, tmp_path: Path, damage: Callable[[Path], None], bytes_max: int
) -> None:
    directory = copy_as_after_kill(filled, tmp_path / "bookie")
    damage(sorted((directory / "ledgers" / "entry-logs").iterdir())[0])

    async def main() -> None:
        storage = await open_storage(directory)
        found = damage_of(walked(storage.block_walk(), bytes_max))
        entries = {
            (each.ledger_id, entry_id) for each in found for entry_id in range(each.first, each.last + 1)
        }
        assert entries == await unreadable(storage) != set()
        assert all(str(directory) in each.reason for each in found)
        await storage.close()

    asyncio.run(main())


def test_what_is_stored_again_does_not_go_into_a_file_without_a_name(filled: Path, tmp_path: Path) -> None:
    """The log that is written to was removed, and is still open."""
    directory = copy_as_after_kill(filled, tmp_path / "bookie")

    async def main() -> None:
        storage = await open_storage(directory, single_write_bytes_min=0)
        state = storage.create_ledger(9, KEY)
        await add(storage, state, range(COUNT))
        await storage.checkpoint()
        sorted((directory / "ledgers" / "entry-logs").iterdir())[-1].unlink()
        found = damage_of(walked(storage.block_walk(), 10**9))
        assert {each.ledger_id for each in found} >= {9}
        for log_id in {each.log_id for each in found if each.log_id is not None}:
            await storage.leave_log(log_id)
        for ledger_id in (*LEDGERS, 9):
            again = storage.ledger(ledger_id)
            assert again is not None
            await add(storage, again, range(COUNT))
        await storage.close()
        storage = await open_storage(directory)
        assert await unreadable(storage) == set()
        assert damage_of(walked(storage.block_walk(), 10**9)) == []
        await storage.close()

    asyncio.run(main())


def test_an_index_that_leads_elsewhere_is_found(filled: Path, tmp_path: Path) -> None:
    """Both blocks are intact, and the wrong one has other entries."""
    directory = copy_as_after_kill(filled, tmp_path / "bookie")
    paths = StoragePaths.of(small_config(directory))
    index = Index(SystemDisk().open_key_values(paths.index))
    try:
        (_, one), (_, other), *_ = index.all_intervals(2)
        store = index._store  # as no code of ours would write it
        records = dict(store.scan(b"I" + (2).to_bytes(8, "big"), b"I" + (3).to_bytes(8, "big")))
        keys = sorted(records)
        store.write([(keys[0], records[keys[1]][:20] + records[keys[0]][20:])])
        found = damage_of(walked(BlockWalk(SystemDisk(), index, paths), 10**9))
    finally:
        index.close()
    assert [(each.ledger_id, each.first, each.last) for each in found] == [(2, one.first, one.last)]
    assert other.first > one.last


def test_a_ledger_that_was_deleted_is_no_damage(filled: Path, tmp_path: Path) -> None:
    directory = copy_as_after_kill(filled, tmp_path / "bookie")

    async def main() -> None:
        storage = await open_storage(directory)
        walk = storage.block_walk()
        first = walk.step(BEGINNING, 1)
        assert first.next is not None
        for ledger_id in LEDGERS:
            await durable(partial(storage.delete_ledger, ledger_id))
        await storage.checkpoint()
        await storage.remove_dead_logs()
        assert walk.step(first.next, 10**9) == Step(0, 0, (), None)
        await storage.close()

    asyncio.run(main())


def test_a_damaged_index_is_reported_and_what_it_still_names_is_checked(filled: Path, tmp_path: Path) -> None:
    directory = copy_as_after_kill(filled, tmp_path / "bookie")
    paths = StoragePaths.of(small_config(directory))
    index = Index(SystemDisk().open_key_values(paths.index))
    sound = index.all_intervals

    def damaged(ledger_id: int = 0, first: int = 0) -> object:
        for found_id, interval in sound(ledger_id, first):
            if found_id == 2 or ledger_id == 2:
                raise StorageError("the index is damaged")
            yield found_id, interval

    index.all_intervals = damaged  # type: ignore[assignment,method-assign]
    try:
        steps = walked(BlockWalk(SystemDisk(), index, paths), 10**9)
    finally:
        index.close()
    assert damage_of(steps) == [], "no block is known to be damaged, and no ledger"
    assert {each.index_damage for each in steps} == {"", "the index is damaged"}
    assert sum(step.blocks for step in steps) >= COUNT // 50
