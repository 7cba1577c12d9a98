"""A sector that cannot be read does to a start what flipped bits at its place do, and nothing where nothing is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.errors import JournalDamagedError, LimboError
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import KEY, add, fence, make_entry, open_storage
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")
JOURNAL = HOME / "journal/0000000000000001.journal"


def filled(*, checkpoint: bool) -> SimulatedDisk:
    """Killed; with a checkpoint in between, nothing before the last adds is replayed."""
    disk = new_disk()

    async def fill() -> None:
        storage = await open_storage(HOME, disk)
        state = storage.create_ledger(1, KEY)
        for first in range(0, 300, 10):
            await add(storage, state, range(first, first + 10))
        if checkpoint:
            await storage.checkpoint()
        await add(storage, state, range(300, 310))
        disk.process_crash()

    run(fill())
    return disk


def test_a_bad_sector_in_the_replayed_journal_is_damage() -> None:
    disk = filled(checkpoint=False)
    disk._media.bad_sectors[JOURNAL] = [range(8192, 8704)]

    async def again() -> None:
        with pytest.raises(JournalDamagedError, match="limbo_on_damage"):
            await open_storage(HOME, disk)
        storage = await open_storage(HOME, disk, limbo_on_damage=True)
        state = storage.ledger(1)
        assert storage.limbo and state is not None
        lost = 0
        for entry_id in range(310):
            try:
                assert await storage.read(state, entry_id) == make_entry(1, entry_id)
            except LimboError:
                lost += 1
        assert 0 < lost <= 20
        await storage.close()

    run(again())


def test_a_bad_sector_before_the_log_mark_keeps_no_bookie_down() -> None:
    disk = filled(checkpoint=True)
    disk._media.bad_sectors[JOURNAL] = [range(8192, 8704)]

    async def again() -> None:
        storage = await open_storage(HOME, disk)
        state = storage.ledger(1)
        assert not storage.limbo and state is not None
        for entry_id in range(310):
            assert await storage.read(state, entry_id) == make_entry(1, entry_id)
        await storage.close()

    run(again())


def test_after_the_last_record_could_not_be_read_what_is_stored_next_outlives_a_kill() -> None:
    disk = filled(checkpoint=False)
    used = len(disk.read_file(JOURNAL).rstrip(b"\0"))
    disk._media.bad_sectors[JOURNAL] = [range(used - used % 512, used - used % 512 + 512)]

    async def again() -> None:
        storage = await open_storage(HOME, disk, limbo_on_damage=True)
        state = storage.ledger(1)
        assert storage.limbo and state is not None and not state.fenced
        await fence(storage, state)
        disk.process_crash()

    async def and_again() -> None:
        storage = await open_storage(HOME, disk, limbo_on_damage=True)
        state = storage.ledger(1)
        assert storage.limbo and state is not None and state.fenced
        await storage.close()

    run(again())
    run(and_again())
