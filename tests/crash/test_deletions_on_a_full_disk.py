"""Deleting ledgers gives their space back while a full disk holds up a checkpoint, and nothing that lives is lost."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from bookie_server.errors import DiskFullError
from bookie_server.storage import checkpoint
from bookie_server.storage.index import Index
from bookie_server.storage.ledgers.state_log_format import decode_state_file
from bookie_server.storage.rebuild.new_index import deleted_in
from bookie_server.storage.rebuild.stopped import rebuild_index
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.image import DiskImage
from tests.helpers.bookie.storage import open_storage, small_config
from tests.helpers.crash.recorded_storage import Ledgers, RecordedStorage, check, copy_of
from tests.helpers.crash.scenarios import HOME
from tests.helpers.simulation.disk import new_disk, run

KIB = 1024
SETTINGS: dict[str, object] = {
    "journal_segment_bytes": 1024 * KIB,
    "write_cache_bytes_max": 1024 * KIB,
    "entry_log_bytes_max": 64 * KIB,
    "reserve_bytes": 64 * KIB,
    "single_write_bytes_min": 0,
}
OLD, HELD_UP, LIVE = range(100, 105), 110, 111
"""Ledgers of 8 KiB an entry: in closed entry logs, and in the write cache of the checkpoint that is held up."""


@pytest.fixture(autouse=True)
def small_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint writes some of its entries before it meets the full disk."""
    monkeypatch.setattr(checkpoint, "_WRITE_BYTES", 16 * KIB)


async def _held_up(bookie: RecordedStorage, disk: SimulatedDisk, capacity_left: int) -> None:
    """Another program has filled the disk: the cache holds more than what is left and the reserve."""
    for ledger_id in OLD:
        await bookie.add(ledger_id, range(10))
        await bookie.storage.checkpoint()
    await bookie.add(HELD_UP, range(10))
    await bookie.add(LIVE, range(20))
    disk.capacity_bytes = disk.used_bytes + capacity_left
    with pytest.raises(DiskFullError):
        await bookie.storage.checkpoint()
    await bookie.storage.check_disk()
    assert not bookie.storage.writable


async def _collect(bookie: RecordedStorage, deleted: list[int]) -> int:
    """As a garbage collection does; how many logs it has removed."""
    for ledger_id in deleted:
        await bookie.delete(ledger_id)
    with suppress(DiskFullError):
        await bookie.storage.checkpoint()
    return await bookie.storage.remove_dead_logs()


@pytest.mark.parametrize("deleted", [[*OLD, HELD_UP, LIVE], [*OLD, HELD_UP], [HELD_UP], [*OLD], [100, 102]])
@pytest.mark.parametrize("capacity_left", [0, 100 * KIB])
def test_deletions_make_space(deleted: list[int], capacity_left: int) -> None:
    """Also if what lives of the checkpoint still does not fit: files in which nothing lives go before it is stored."""
    disk, ledgers = new_disk(), Ledgers()

    async def main() -> None:
        bookie = RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)
        await _held_up(bookie, disk, capacity_left)
        used = disk.used_bytes
        removed = await _collect(bookie, deleted)
        states = decode_state_file(disk.read_file(HOME / "ledgers" / "ledger-states"))
        if removed:
            assert set(deleted) <= deleted_in(states.records), "a rebuilt index would miss their files"
        if set(OLD) & set(deleted):
            assert removed >= len(set(OLD) & set(deleted)) - 1, "the last one may be written to"
        await bookie.storage.check_disk()
        if len(deleted) > 2:
            assert disk.used_bytes < used
            assert bookie.storage.writable
        await check(bookie.storage, ledgers)
        disk.process_crash()

    run(main())
    disk.capacity_bytes = None
    for is_rebuilt in (False, True):
        copy = new_disk(image=next(disk.legal_images(1)))
        if is_rebuilt:
            assert not rebuild_index(copy, small_config(HOME, **SETTINGS), lambda _: None).lost
        run(_checked(copy, ledgers))


def test_a_checkpoint_goes_on_without_what_was_deleted_since() -> None:
    """No file can go: what lives of the checkpoint fits, and together with what was deleted it did not."""
    disk, ledgers = new_disk(), Ledgers()

    async def main() -> None:
        bookie = RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)
        await bookie.add(HELD_UP, range(10))
        await bookie.add(LIVE, range(10))
        disk.capacity_bytes = disk.used_bytes + 64 * KIB
        with pytest.raises(DiskFullError):
            await bookie.storage.checkpoint()
        await bookie.delete(HELD_UP)
        await bookie.storage.checkpoint()
        await check(bookie.storage, ledgers)
        disk.process_crash()

    run(main())
    disk.capacity_bytes = None
    run(_checked(disk, ledgers))


async def _checked(disk: SimulatedDisk, ledgers: Ledgers) -> None:
    storage = await open_storage(HOME, disk, **SETTINGS)
    assert not storage.limbo
    await check(storage, ledgers)
    await storage.close()


@pytest.mark.parametrize("deleted", [HELD_UP, LIVE])
def test_deletions_come_into_a_checkpoint_whose_blocks_are_written(
    deleted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index was full: the blocks of what lives stay where they are, and those of the others are not missed."""
    disk, ledgers = new_disk(), Ledgers()

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=HOME)

    async def main() -> None:
        bookie = RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)
        for ledger_id in (HELD_UP, LIVE):
            await bookie.add(ledger_id, range(10))
        with monkeypatch.context() as patched:
            patched.setattr(Index, "sync", full)
            with pytest.raises(DiskFullError):
                await bookie.storage.checkpoint()
            await bookie.delete(deleted)
            with pytest.raises(DiskFullError):
                await bookie.storage.checkpoint()
        end = bookie.storage._parts.writer.end
        await bookie.storage.checkpoint()
        assert bookie.storage._parts.writer.end == end
        await bookie.storage.forget_blocks()
        await check(bookie.storage, ledgers)
        assert not list(bookie.storage._parts.index.intervals(deleted))
        disk.process_crash()

    run(main())
    run(_checked(disk, ledgers))


@pytest.mark.parametrize("deleted", [[*OLD, HELD_UP], [*OLD, LIVE], [100, 101, 102], [HELD_UP, LIVE]])
def test_a_power_cut_at_each_effect_of_it_loses_nothing_that_lives(deleted: list[int]) -> None:
    disk, ledgers, choose = new_disk(), Ledgers(), Random(1)
    found: list[tuple[str, DiskImage, Ledgers]] = []

    async def main() -> None:
        bookie = RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)

        def take_images(effect: object) -> None:
            promised = copy_of(ledgers)
            found.extend((str(effect), image, promised) for image in disk.legal_images(3, choose))

        await _held_up(bookie, disk, 0)
        disk.watch_effects(take_images)
        await _collect(bookie, deleted)
        await bookie.storage.check_disk()
        await bookie.fence(LIVE + 1)
        with suppress(DiskFullError):
            await bookie.storage.checkpoint()
        disk.process_crash()

    async def boot(image: DiskImage, promised: Ledgers) -> None:
        storage = await open_storage(HOME, new_disk(image=image), **SETTINGS)
        await check(storage, promised)
        await storage.checkpoint()
        await storage.remove_dead_logs()
        await storage.forget_blocks()
        await check(storage, promised)
        await storage.close()

    run(main())
    given_up = [f"{log_id:016x}.log" for log_id in range(len(OLD) + 1, 20)]
    removals = [effect for effect, _, _ in found if "remove" in effect]
    assert any(name in effect for name in given_up for effect in removals) or {HELD_UP, LIVE} <= set(deleted)
    for effect, image, promised in found:
        try:
            run(boot(image, promised))
        except AssertionError as error:
            error.add_note(f"stopped before {effect}; {image.changes}")
            raise
