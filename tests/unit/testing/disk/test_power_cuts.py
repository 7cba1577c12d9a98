"""What a simulated disk holds after its machine stopped: everything synced, a legal part of the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from bookie_server.errors import DirectoryInUseError, DiskFailedError
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import SimulatedCrash
from dlog.testing.disk.image import DiskImage
from tests.helpers.simulation.disk import CountedNotes, new_disk

HOME = Path("/b1")
FILE = HOME / "file"


def with_file(content: bytes = b"") -> SimulatedDisk:
    """A disk with one durable file."""
    disk = new_disk()
    disk.make_directory(HOME)
    disk.replace_file(FILE, content)
    return disk


def contents(disk: SimulatedDisk, limit: int = 1000, path: Path = FILE) -> set[bytes | None]:
    return {image.files.get(path) for image in disk.legal_images(limit, Random(1))}


# ---- bytes


def test_synced_bytes_survive_every_power_cut() -> None:
    disk = with_file()
    file = disk.open_write(FILE)
    file.write_at(0, [b"abc"])
    file.sync()
    assert contents(disk) == {b"abc"}
    disk.power_cut(Random(1))
    assert disk.read_file(FILE) == b"abc"


def test_of_unsynced_writes_any_prefix_may_survive_down_to_the_byte() -> None:
    disk = with_file(b"....")
    file = disk.open_write(FILE)
    file.write_at(0, [b"ab"])
    file.write_at(2, [b"cd"])
    found = contents(disk)
    assert {b"....", b"a...", b"ab..", b"abc.", b"abcd"} <= found
    assert not [content for content in found if content is None or len(content) != 4]


def test_a_power_cut_keeps_the_first_images_whole() -> None:
    """All prefixes of whole writes come first, when they fit."""
    disk = with_file(b"")
    file = disk.open_write(FILE)
    for letter in (b"a", b"b", b"c"):
        file.write_at(file.size(), [letter])
    first = [image.files[FILE] for image in disk.legal_images(4, Random(1))]
    assert first == [b"", b"a", b"ab", b"abc"]
    first = [image.files[FILE] for image in disk.legal_images(3, Random(1))]
    assert first[:2] == [b"", b"abc"] and len(first) == 3


def test_sectors_survive_in_any_order_and_the_size_may_come_alone() -> None:
    disk = with_file(bytes(1024))
    file = disk.open_write(FILE)
    file.write_at(0, [b"a" * 1536])
    found = contents(disk, 2000)
    second_only = bytes(512) + b"a" * 512
    assert second_only in found or second_only + bytes(512) in found
    assert bytes(1536) in found
    torn = [content for content in found if content and b"a\0" in content[:511]]
    assert torn, "no sector is torn"
    for content in found:
        assert content is not None and set(content) <= {0, ord("a")} and 1024 <= len(content) <= 1536


def test_a_synced_byte_keeps_its_value_when_its_sector_is_written_next_to_it() -> None:
    """As the journal does: records in one sector, each with a sync of its own."""
    disk = with_file(bytes(4096))
    file = disk.open_write(FILE)
    file.write_at(100, [b"x" * 200])
    file.sync()
    file.write_at(300, [b"y" * 600])
    for content in contents(disk, 500):
        assert content is not None and content[100:300] == b"x" * 200


def test_room_made_before_a_sync_is_durable_with_it() -> None:
    disk = with_file()
    file = disk.open_write(FILE)
    file.preallocate(0, 100)
    assert contents(disk) == {b"", bytes(100)}
    file.write_at(0, [b"header"])
    file.sync()
    assert contents(disk) == {b"header" + bytes(94)}


def test_a_truncated_file_is_the_old_one_or_a_part_of_the_new_one() -> None:
    disk = with_file(b"old and long")
    file = disk.create(FILE)
    file.write_at(0, [b"new"])
    assert contents(disk) == {b"old and long", b"", b"n", b"ne", b"new"}
    file.sync()
    assert contents(disk) == {b"new"}


# ---- names


def test_a_new_name_needs_its_directory_synced() -> None:
    disk = with_file()
    file = disk.create(HOME / "new")
    file.write_at(0, [b"abc"])
    file.sync()
    assert contents(disk, path=HOME / "new") == {None, b"abc"}
    disk.sync_directory(HOME)
    assert contents(disk, path=HOME / "new") == {b"abc"}


def test_a_rename_is_atomic_and_takes_the_unsynced_bytes_along() -> None:
    disk = with_file(b"old")
    file = disk.create(HOME / "file.tmp")
    file.write_at(0, [b"new"])
    disk.rename(HOME / "file.tmp", FILE)
    assert {bytes(content or b"").rstrip(b"\0") for content in contents(disk)} == {
        b"old",
        b"",
        b"n",
        b"ne",
        b"new",
    }
    file.sync()
    assert contents(disk) == {b"old", b"new"}
    disk.sync_directory(HOME)
    assert contents(disk) == {b"new"}
    assert {tuple(image.files) for image in disk.legal_images(10)} == {(FILE,)}


def test_changes_of_one_directory_survive_in_order() -> None:
    disk = new_disk()
    disk.make_directory(HOME)
    for name in ("a", "b"):
        disk.create(HOME / name)
    disk.remove(HOME / "a")
    found = {tuple(sorted(path.name for path in image.files)) for image in disk.legal_images(10)}
    assert found == {(), ("a",), ("a", "b"), ("b",)}


def test_directories_do_not_wait_for_each_other() -> None:
    disk = new_disk()
    for name in ("one", "two"):
        disk.make_directory(HOME / name)
        disk.create(HOME / name / "file")
    found = {tuple(sorted(path.parent.name for path in image.files)) for image in disk.legal_images(10)}
    assert found == {(), ("one",), ("two",), ("one", "two")}


def test_a_removed_name_comes_back_with_its_bytes() -> None:
    disk = with_file(b"abc")
    disk.remove(FILE)
    assert contents(disk) == {b"abc", None}
    disk.sync_directory(HOME)
    assert contents(disk) == {None}


def test_a_directory_that_was_not_synced_takes_everything_with_it() -> None:
    disk = new_disk()
    disk.make_name(HOME)
    disk.replace_file(FILE, b"abc")
    assert contents(disk) == {None, b"abc"}


def test_an_image_can_be_loaded_as_often_as_wanted() -> None:
    disk = with_file(b"abc")
    disk.make_directory(HOME / "deep")
    store = disk.open_key_values(HOME / "index")
    store.write([(b"k", b"v")])
    store.sync()
    image = next(disk.legal_images(5, Random(1)))
    for _ in range(2):
        again = new_disk(image=image)
        assert again.list(HOME) == ["deep", "file", "index"]
        assert again.open_key_values(HOME / "index").get(b"k") == b"v"
        again.open_write(FILE).write_at(0, [b"x"])
    assert isinstance(image, DiskImage) and image.files[FILE] == b"abc"


# ---- the end of a process


def test_kill_loses_nothing_that_was_written_and_a_later_power_cut_still_may() -> None:
    disk = with_file()
    disk.open_write(FILE).write_at(0, [b"abc"])
    disk.create(HOME / "new")
    disk.process_crash()
    assert disk.read_file(FILE) == b"abc"
    assert disk.exists(HOME / "new")
    assert b"" in contents(disk) and None in contents(disk, path=HOME / "new")


def test_what_a_process_had_open_ends_with_it() -> None:
    async def main() -> None:
        disk = with_file(b"abc")
        file, lock = disk.open_write(FILE), disk.lock(HOME / "lock")
        store, worker = disk.open_key_values(HOME / "index"), disk.worker("test")
        ran: list[str] = []
        worker.submit(lambda: ran.append("job"), lambda _result, _error: ran.append("done"))
        disk.process_crash()
        for call in (lambda: file.read_at(0, 1), lambda: store.get(b""), lambda: file.write_at(0, [b"x"])):
            with pytest.raises(SimulatedCrash):
                call()
        with pytest.raises(SimulatedCrash):
            worker.submit(lambda: None, lambda _result, _error: None)
        await asyncio.sleep(0.01)
        assert ran == []
        file.close()
        store.close()
        new = disk.lock(HOME / "lock")
        disk.open_key_values(HOME / "index")
        lock.release()  # by the dead process: the new one keeps its lock
        with pytest.raises(DirectoryInUseError):
            disk.lock(HOME / "lock")
        new.release()

    asyncio.run(main())


@pytest.mark.parametrize("number", range(1, 5))
def test_a_crash_at_an_effect_leaves_what_the_effects_before_it_made(number: int) -> None:
    """The four effects of replacing a file: create, write, sync, rename; and the directory's sync."""
    disk = with_file(b"old")
    crashed: list[bool] = []
    disk.on_crash(lambda: crashed.append(True))
    disk.crash_at_effect(disk.effects.count + number)
    with pytest.raises(SimulatedCrash):
        disk.replace_file(FILE, b"new")
    assert crashed == [True]
    with pytest.raises(SimulatedCrash):
        disk.exists(FILE)
    disk.process_crash()
    assert disk.read_file(FILE) == b"old"
    assert disk.exists(HOME / "file.tmp") == (number > 1)
    assert [effect.kind for effect in disk.effects.recent][-number + 1 :][: number - 1] == [
        "create",
        "write",
        "sync",
    ][: number - 1]


def test_a_crash_within_a_job_silences_its_worker() -> None:
    async def main() -> None:
        disk = with_file(b"old")
        worker = disk.worker("test")
        done: list[str] = []
        disk.crash_at_effect(disk.effects.count + 3)
        worker.submit(lambda: disk.replace_file(FILE, b"new"), lambda _result, _error: done.append("one"))
        worker.submit(lambda: None, lambda _result, _error: done.append("two"))
        await asyncio.sleep(0.01)
        assert done == []
        disk.power_cut(Random(3))
        assert disk.read_file(FILE) == b"old"

    asyncio.run(main())


def test_each_effect_can_be_watched_before_it_happens() -> None:
    disk = with_file(b"old")
    seen: list[tuple[str, bytes]] = []
    disk.watch_effects(lambda effect: seen.append((effect.kind, disk.read_file(FILE))))
    disk.replace_file(FILE, b"new")
    assert seen == [(kind, b"old") for kind in ("create", "write", "sync", "rename")] + [("dirsync", b"new")]


# ---- the index's store


def test_of_an_index_a_prefix_of_the_unsynced_writes_survives() -> None:
    found = set()
    for seed in range(30):
        disk = new_disk(seed)
        store = disk.open_key_values(HOME)
        for number in range(6):
            store.write([(b"%d" % number, b"")])
            if number == 2:
                store.sync()
        if seed % 2:
            disk.process_crash()
        else:
            disk.power_cut()
        keys = [key for key, _ in disk.open_key_values(HOME).scan(b"", b"\xff")]
        assert keys == [b"%d" % number for number in range(len(keys))]
        found.add(len(keys))
    assert found == {3, 4, 5, 6}


def test_the_images_of_an_index_are_all_prefixes() -> None:
    disk = new_disk()
    store = disk.open_key_values(HOME)
    store.write([(b"a", b"1")])
    store.sync()
    store.write([(b"b", b"2")], [b"a"])
    store.write([(b"a", b"3")])
    assert [image.stores[HOME].records for image in disk.legal_images(10)] == [
        {b"a": b"1"},
        {b"b": b"2"},
        {b"a": b"3", b"b": b"2"},
    ]


# ---- the same seed


def test_the_same_seed_tears_the_same_bytes() -> None:
    def run(seed: int) -> tuple[bytes, list[tuple[str, str, str]]]:
        notes = CountedNotes()
        disk = new_disk(seed, notes)
        disk.make_directory(HOME)
        disk.replace_file(FILE, bytes(4096))
        file = disk.open_write(FILE)
        disk.faults.rates["short_write"] = 0.5
        for number in range(8):
            file.write_at(number * 300, [bytes([number + 1]) * 300])
        disk.power_cut()
        return disk.read_file(FILE), notes.lines

    assert run(5) == run(5)
    assert len({run(seed)[0] for seed in range(10)}) > 5


def test_what_a_power_cut_took_is_counted() -> None:
    notes = CountedNotes()
    for seed in range(20):
        disk = new_disk(seed, notes)
        file = disk.create(Path("/file"))
        disk.sync_directory(Path("/"))
        file.write_at(0, [b"x" * 100])
        file.write_at(100, [b"y" * 100])
        disk.power_cut()
    counts = notes.counts
    assert counts["fault.power_cut"] == 20
    assert counts["fault.lost_write"] > 0 and counts["fault.torn_write"] > 0
    assert counts["fault.lost_write"] + counts["fault.torn_write"] <= 20


def test_a_missing_file_stays_missing_after_a_crash() -> None:
    disk = new_disk()
    disk.make_directory(HOME)
    disk.create(FILE)
    disk.restore(next(disk.legal_images(2)))
    with pytest.raises(DiskFailedError):
        disk.read_file(FILE)
