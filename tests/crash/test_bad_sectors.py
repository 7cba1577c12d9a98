"""A sector that cannot be read does to a start what flipped bits at its place do, and nothing where nothing is read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from bookie_server.errors import JournalDamagedError, LimboError
from bookie_server.storage.entry_logs.format import file_name as log_name
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.rebuild.stopped import rebuild_index
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import KEY, add, fence, make_entry, open_storage, small_config
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")
JOURNAL = HOME / "journal/0000000000000001.journal"
ENTRY_LOG = HOME / "ledgers/entry-logs/0000000000000001.log"
STATES = HOME / "ledgers/ledger-states"


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


def closed() -> SimulatedDisk:
    disk = new_disk()

    async def fill() -> None:
        storage = await open_storage(HOME, disk, single_write_bytes_min=0)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(100))
        await fence(storage, state)
        await storage.close()

    run(fill())
    return disk


async def require_all(storage: LedgerStorage, entry_ids: range) -> None:
    state = storage.ledger(1)
    assert not storage.limbo and state is not None and state.fenced
    for entry_id in entry_ids:
        assert await storage.read(state, entry_id) == make_entry(1, entry_id)


@pytest.mark.parametrize("place", ["header", "end"])
def test_an_entry_log_with_a_bad_sector_where_it_goes_on_is_left(place: str) -> None:
    disk = closed()
    if place == "header":
        bad = range(512)
    else:
        used = len(disk.read_file(ENTRY_LOG))
        bad = range(used - used % 512, used - used % 512 + 512)
    disk._media.bad_sectors[ENTRY_LOG] = [bad]

    async def again() -> None:
        storage = await open_storage(HOME, disk, single_write_bytes_min=0)
        state = storage.ledger(1)
        assert state is not None
        before = disk._media.bad_sectors[ENTRY_LOG]
        await add(storage, state, range(100, 110))
        await storage.checkpoint()
        assert disk._media.bad_sectors[ENTRY_LOG] == before
        assert disk.list(ENTRY_LOG.parent) == [log_name(1), log_name(2)]
        await storage.close()
        assert storage.failed is None
        storage = await open_storage(HOME, disk, single_write_bytes_min=0)
        disk._media.bad_sectors.clear()
        await require_all(storage, range(110))
        await storage.close()

    run(again())


def test_ledger_states_with_a_bad_sector_are_written_anew() -> None:
    disk = closed()
    disk._media.bad_sectors[STATES] = [range(512)]

    async def again() -> None:
        storage = await open_storage(HOME, disk)
        state = storage.ledger(1)
        assert state is not None
        await add(storage, state, range(100, 110))
        await storage.checkpoint()
        await storage.close()
        assert storage.failed is None
        rebuilt = rebuild_index(disk, small_config(HOME), lambda _: None)
        assert (rebuilt.lost, rebuilt.entries) == ([], 110)
        storage = await open_storage(HOME, disk)
        await require_all(storage, range(110))
        await storage.close()

    run(again())


def test_a_rebuild_takes_states_from_the_old_index_if_a_sector_of_their_copy_is_bad() -> None:
    disk = closed()
    disk._media.bad_sectors[STATES] = [range(512)]
    rebuilt = rebuild_index(disk, small_config(HOME), lambda _: None)
    assert any("ledger states" in each for each in rebuilt.lost)

    async def again() -> None:
        storage = await open_storage(HOME, disk)
        state = storage.ledger(1)
        assert storage.limbo and state is not None and state.fenced and state.master_key == KEY
        await storage.close()

    run(again())


@pytest.mark.parametrize("written", ["twice", "once"])
def test_a_rebuilt_index_lacks_only_what_a_bad_sector_hides(written: str) -> None:
    """And the file with the rest is no garbage."""
    disk, once = new_disk(), int(written == "once")
    victim = JOURNAL.with_name("0000000000000002.journal") if once else ENTRY_LOG

    async def fill() -> None:
        storage = await open_storage(HOME, disk, single_write_bytes_min=once)
        state = storage.create_ledger(1, KEY)
        for first in range(0, 1500, 10):
            await add(storage, state, range(first, first + 10))
        await storage.checkpoint()
        await storage.close()

    async def found() -> int:
        storage = await open_storage(HOME, disk, limbo_on_damage=True, single_write_bytes_min=once)
        state = storage.ledger(1)
        assert storage.limbo and state is not None
        count = 0
        for entry_id in range(1500):
            with suppress(LimboError):
                count += await storage.read(state, entry_id) == make_entry(1, entry_id)
        await storage.remove_dead_logs()
        await storage.close()
        return count

    run(fill())
    disk._media.bad_sectors[victim] = [range(20480, 20992)]
    lost = rebuild_index(disk, small_config(HOME, single_write_bytes_min=once), lambda _: None).lost
    assert len(lost) == 1
    assert 1500 - 60 < run(found()) < 1500
    assert disk.exists(victim)
