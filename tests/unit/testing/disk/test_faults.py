"""What a simulated disk does wrong: as a real one would, where told, and counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from bookie_server.errors import DiskFailedError, DiskFullError, IndexDamagedError, StorageError
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.simulation.disk import CountedNotes, new_disk

HOME = Path("/b1")
FILE = HOME / "file"


@pytest.fixture
def notes() -> CountedNotes:
    return CountedNotes()


@pytest.fixture
def disk(notes: CountedNotes) -> SimulatedDisk:
    disk = new_disk(notes=notes)
    disk.make_directory(HOME)
    disk.replace_file(FILE, b"old content")
    return disk


def test_a_read_error_befalls_the_chosen_read(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.faults.arm("read_error", "file", number=2)
    assert disk.read_file(FILE) == b"old content"
    with pytest.raises(DiskFailedError, match="input/output"):
        disk.read_file(FILE)
    assert disk.read_file(FILE) == b"old content"
    assert notes.counts["fault.read_error"] == 1


def test_a_write_error_leaves_a_part(notes: CountedNotes) -> None:
    found = set()
    for seed in range(30):
        disk = new_disk(seed, notes)
        file = disk.create(Path("/file"))
        disk.faults.arm("write_error")
        with pytest.raises(DiskFailedError):
            file.write_at(0, [b"abc"])
        found.add(disk.read_file(Path("/file")))
    assert found == {b"", b"a", b"ab", b"abc"}
    assert notes.counts["fault.write_error"] == 30


def test_a_sync_after_a_failed_one_succeeds_and_proves_nothing() -> None:
    """The pages count as clean: read from memory or dropped, but on the disk only in part."""
    found = set()
    for seed in range(60):
        disk = new_disk(seed)
        disk.make_directory(HOME)
        disk.replace_file(FILE, b"..")
        file = disk.open_write(FILE)
        file.write_at(0, [b"a"])
        file.write_at(1, [b"b"])
        disk.faults.arm("sync_error")
        with pytest.raises(DiskFailedError):
            file.sync()
        visible = disk.read_file(FILE)
        file.sync()
        disk.power_cut()
        found.add((visible, disk.read_file(FILE)))
    assert found == {(b"ab", b".."), (b"ab", b"a."), (b"..", b".."), (b"a.", b"a."), (b"ab", b"ab")}


def test_what_is_written_again_after_a_failed_sync_is_durable_with_the_next() -> None:
    """What reopening the journal relies on."""
    for seed in range(10):
        disk = new_disk(seed)
        disk.make_directory(HOME)
        disk.replace_file(FILE, b"..")
        file = disk.open_write(FILE)
        file.write_at(0, [b"ab"])
        disk.faults.arm("sync_error")
        with pytest.raises(DiskFailedError):
            file.sync()
        file.write_at(0, [b"ab"])
        file.sync()
        disk.power_cut()
        assert disk.read_file(FILE) == b"ab"


def test_short_writes_are_completed_with_an_effect_each(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.faults.rates["short_write"] = 0.5
    file = disk.open_write(FILE)
    before = disk.effects.count
    for number in range(20):
        assert file.write_at(number * 10, [b"0123456789"]) == number * 10 + 10
    assert disk.read_file(FILE) == b"0123456789" * 20
    assert disk.effects.count - before == 20 + notes.counts["fault.short_write"] > 25


def test_a_misdirected_write_lands_elsewhere_unnoticed(disk: SimulatedDisk, notes: CountedNotes) -> None:
    file = disk.create(FILE)
    file.preallocate(0, 4096)
    disk.faults.arm("misdirected_write")
    file.write_at(512, [b"x" * 512])
    file.sync()
    content = disk.read_file(FILE)
    assert content[512:1024] == bytes(512)
    assert content.count(b"x") == 512 and content.index(b"x") % 512 == 0
    assert notes.counts["fault.misdirected_write"] == 1


def test_bit_rot_flips_one_bit_that_stays_flipped(disk: SimulatedDisk, notes: CountedNotes) -> None:
    found = disk.rot("file")
    assert found is not None
    path, at = found
    changed = disk.read_file(FILE)
    assert path == FILE
    assert [index for index in range(11) if changed[index] != b"old content"[index]] == [at]
    assert (changed[at] ^ b"old content"[at]).bit_count() == 1
    disk.power_cut()
    assert disk.read_file(FILE) == changed
    assert disk.rot("nowhere") is None
    assert notes.counts["fault.bit_rot"] == 1


def test_what_rots_lately_lies_at_the_end_of_what_was_written(disk: SimulatedDisk) -> None:
    with_zeros = b"x" * 2000 + bytes(2000)
    disk.replace_file(FILE, with_zeros)
    for _ in range(50):
        found = disk.rot("file", recent_bytes=10)
        assert found is not None
        assert 1980 < found[1] < 2000
    rotten = disk.read_file(FILE)
    stretch = disk.rot_stretch("file", size=500)
    assert stretch is not None
    changed = [index for index, byte in enumerate(disk.read_file(FILE)) if byte != rotten[index]]
    assert changed[0] >= stretch[1] > 800
    assert stretch[1] + 400 < changed[-1] < 1700
    assert disk.rot_stretch("nowhere", size=1) is None


def test_a_wiped_disk_is_empty_for_good(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.wipe()
    disk.power_cut()
    assert not disk.exists(HOME)
    assert notes.counts["fault.lost_file"] == 1


def test_an_emptied_disk_keeps_what_it_is_asked_to(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.replace_file(HOME / "VERSION", b"whose")
    disk.wipe("VERSION")
    disk.power_cut()
    assert disk.list(HOME) == ["VERSION"]
    assert disk.read_file(HOME / "VERSION") == b"whose"
    assert notes.counts["fault.lost_file"] == 1


def test_a_lost_file_does_not_come_back(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.replace_file(HOME / "new", b"")
    disk.rename(HOME / "new", FILE)
    assert disk.lose_file("file") == FILE
    assert not disk.exists(FILE)
    assert all(FILE not in image.files for image in disk.legal_images(100, Random(1)))
    assert disk.lose_file("file") is None
    assert disk.lost_files == {FILE}
    assert notes.counts["fault.lost_file"] == 1


def test_a_full_disk_takes_what_fits_and_no_more(disk: SimulatedDisk, notes: CountedNotes) -> None:
    disk.capacity_bytes = disk.used_bytes + 10
    assert disk.free_space(HOME) == (disk.capacity_bytes, 10)
    file = disk.create(HOME / "big")
    with pytest.raises(DiskFullError, match="free space"):
        file.preallocate(0, 11)
    assert file.size() == 0
    file.preallocate(0, 8)
    file.write_at(0, [b"12345678"])
    with pytest.raises(DiskFullError):
        file.write_at(8, [b"abcd"])
    assert disk.read_file(HOME / "big") == b"12345678ab"
    disk.remove(HOME / "big")
    assert disk.free_space(HOME)[1] == 0, "an open file keeps its space"
    file.close()
    assert disk.free_space(HOME)[1] == 10
    assert notes.counts["fault.disk_full"] == 2


def test_a_full_disk_stops_the_index_until_it_is_opened_anew(disk: SimulatedDisk) -> None:
    store = disk.open_key_values(HOME / "index")
    store.write([(b"a", b"")])
    store.sync()
    disk.capacity_bytes = disk.used_bytes + 5000
    store.write([(b"b", bytes(6000))])
    for call in (store.sync, store.sync, lambda: store.write([])):
        with pytest.raises(DiskFullError):
            call()
    assert store.get(b"a") == b""
    disk.capacity_bytes = None
    store.reopen()
    store.write([(b"c", b"")])
    store.sync()
    assert store.get(b"c") == b""


def test_an_index_opened_on_a_full_disk_can_be_read(disk: SimulatedDisk) -> None:
    store = disk.open_key_values(HOME / "index")
    store.write([(b"a", b"1")])
    store.sync()
    store.close()
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFullError):
        disk.open_key_values(HOME / "other")
    store = disk.open_key_values(HOME / "index")
    assert store.get(b"a") == b"1"
    with pytest.raises(DiskFullError):
        store.write([(b"b", b"")])


def test_a_failed_sync_of_the_index_is_not_tried_again(disk: SimulatedDisk) -> None:
    store = disk.open_key_values(HOME / "index")
    store.write([(b"a", b"1")])
    disk.faults.arm("sync_error", "index")
    for _ in range(2):
        with pytest.raises(DiskFailedError):
            store.sync()


def test_damaged_records_never_read_as_absent(notes: CountedNotes) -> None:
    disk = new_disk(7, notes)
    store = disk.open_key_values(HOME)
    store.write([(bytes([number]), b"x") for number in range(50)])
    store.sync()
    assert disk.damage_index()
    unknown = 0
    for number in range(50):
        try:
            assert store.get(bytes([number])) == b"x"
        except StorageError:
            unknown += 1
    assert 0 < unknown <= 8
    with pytest.raises(StorageError):
        list(store.scan(b"", b"\xff"))
    disk.power_cut()
    with pytest.raises(StorageError):
        list(disk.open_key_values(HOME).scan(b"", b"\xff"))
    assert notes.counts["fault.index_damage"] == 1


def test_a_damaged_store_is_refused(disk: SimulatedDisk) -> None:
    disk.open_key_values(HOME / "index").close()
    assert disk.damage_index(whole=True)
    with pytest.raises(IndexDamagedError, match="rebuild-index"):
        disk.open_key_values(HOME / "index")


def test_a_slow_sync_delays_its_own_worker_only() -> None:
    async def main() -> None:
        disk = new_disk(timing=DiskTiming(slow_sync_s=(0.05, 0.05)))
        file = disk.create(Path("/file"))
        one, two = disk.worker("one"), disk.worker("two")
        disk.faults.arm("slow_sync")
        order: list[str] = []
        one.submit(file.sync, lambda _result, _error: order.append("slow"))
        one.submit(lambda: None, lambda _result, _error: order.append("behind it"))
        two.submit(lambda: None, lambda _result, _error: order.append("beside it"))
        await one.close()
        await two.close()
        assert order == ["beside it", "slow", "behind it"]

    asyncio.run(main())


def test_after_a_slow_brief_job_the_next_one_leaves_the_loop() -> None:
    async def main() -> None:
        disk = new_disk(
            timing=DiskTiming(wake_s=(0.001, 0.001), sync_s=(1e-5, 1e-5), slow_sync_s=(0.001, 0.001))
        )
        file, worker = disk.create(Path("/file")), disk.worker("test")

        async def one() -> bool:
            """Whether a sync was carried out by the end of this iteration."""
            done = asyncio.Event()
            worker.submit(file.sync, lambda _result, _error: done.set(), brief=True)
            await asyncio.sleep(0)
            at_once = done.is_set()
            await done.wait()
            return at_once

        assert [await one(), await one()] == [False, True]
        disk.faults.arm("slow_sync")
        assert [await one(), await one(), await one()] == [True, False, True]
        await worker.close()

    asyncio.run(main())


def test_a_job_with_a_bug_is_loud_and_its_waiter_learns_of_it() -> None:
    async def main() -> None:
        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, facts: heard.append(facts["exception"])
        )
        worker = new_disk().worker("test")
        with pytest.raises(DiskFailedError, match="broke down"):
            await worker.run(lambda: 1 // 0)
        assert isinstance(heard[0], ZeroDivisionError)
        await worker.close()

    asyncio.run(main())
