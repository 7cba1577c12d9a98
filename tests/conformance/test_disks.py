"""What every Disk does alike, the system's and the simulated one. Crashes: tests/unit/testing and tests/crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DirectoryInUseError, DiskFailedError, StorageClosedError
from tests.helpers.simulation.disk import new_disk

Place = tuple[Disk, Path]


@pytest.fixture(params=["system", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A disk and an empty directory on it."""
    if request.param == "system":
        return SystemDisk(), tmp_path
    disk = new_disk()
    disk.make_directory(tmp_path)
    return disk, tmp_path


def write(disk: Disk, path: Path, content: bytes) -> None:
    file = disk.create(path)
    assert file.write_at(0, [content]) == len(content)
    file.close()


def test_parts_are_written_one_after_the_other(place: Place) -> None:
    """Also more than one vector write takes; with zeros before, and nothing behind."""
    disk, home = place
    file = disk.create(home / "file")
    parts = [bytes([number % 251]) * (number % 7) for number in range(3000)]
    end = file.write_at(10, parts)
    assert (end, file.size()) == (10 + sum(map(len, parts)),) * 2
    assert file.read_at(0, end + 5) == bytes(10) + b"".join(parts)
    assert file.read_at(end, 5) == b""
    file.write_at(12, [b"xy"])
    assert file.read_at(9, 6) == bytes(1) + b"".join(parts)[:2] + b"xy" + b"".join(parts)[4:5]
    file.close()


@pytest.mark.parametrize("start", [0, 10, 4096, 4097])
@pytest.mark.parametrize("size", [100, 600_000, 9_000_001])
def test_what_is_written_uncached_reads_like_everything_else(place: Place, start: int, size: int) -> None:
    """Between bytes that were there, in parts of any size, and more than one piece; nothing else is changed."""
    disk, home = place
    data = Random(1).randbytes(size)
    cuts = [0, 1, size // 3, size // 2, size]
    parts = [data[low:high] for low, high in pairwise(cuts)]
    file = disk.create(home / "file")
    before, after = b"<" * (start + 5000), b">" * 5000
    file.write_at(0, [before, bytes(size), after])
    file.preallocate(0, 10_000_000)
    at = len(before) - 700
    assert file.write_uncached(at, parts) == at + size
    file.sync()
    rest = (before[-700:] + bytes(size) + after)[size:]
    assert file.read_at(0, at + size) == before[:-700] + data
    assert file.read_at(at + size, len(rest)) == rest
    assert file.size() == max(10_000_000, len(before) + size + 5000)
    file.close()


def test_made_room_reads_as_zeros_and_changes_no_content(place: Place) -> None:
    disk, home = place
    file = disk.create(home / "file")
    file.write_at(0, [b"abc"])
    file.preallocate(0, 2)
    assert file.read_at(0, 100) == b"abc"
    file.preallocate(2, 8)
    assert file.size() == 10
    assert file.read_at(0, 100) == b"abc" + bytes(7)
    file.sync()
    file.close()


def test_a_new_file_replaces_a_leftover(place: Place) -> None:
    disk, home = place
    write(disk, home / "file", b"a long leftover")
    disk.create(home / "file").close()
    assert disk.read_file(home / "file") == b""


def test_missing_names_are_distinguished_from_other_failures(place: Place) -> None:
    disk, home = place
    calls: list[Callable[[], object]] = [
        lambda: disk.open_read(home / "nowhere"),
        lambda: disk.open_write(home / "nowhere"),
        lambda: disk.read_file(home / "nowhere"),
        lambda: disk.create(home / "nowhere" / "file"),
        lambda: disk.rename(home / "nowhere", home / "file"),
        lambda: disk.sync_directory(home / "nowhere"),
        lambda: disk.list(home / "nowhere"),
    ]
    for call in calls:
        with pytest.raises(DiskFailedError, match="nowhere") as caught:
            call()
        assert caught.value.missing
    disk.make_directory(home / "directory")
    for call in (lambda: disk.create(home / "directory"), lambda: disk.remove(home / "directory")):
        with pytest.raises(DiskFailedError) as caught:
            call()
        assert not caught.value.missing


def test_names_come_and_go(place: Place) -> None:
    disk, home = place
    for name in ("b", "a", "c.tmp"):
        write(disk, home / name, name.encode())
    disk.rename_durably(home / "c.tmp", home / "b")
    assert disk.list(home) == ["a", "b"]
    assert disk.read_file(home / "b") == b"c.tmp"
    disk.remove(home / "a")
    disk.remove(home / "a")
    disk.remove(home / "nowhere" / "a")
    assert [disk.exists(home / name) for name in ("a", "b", "nowhere/a")] == [False, True, False]


def test_directories_are_made_with_their_parents_and_removed_with_all_in_them(place: Place) -> None:
    disk, home = place
    deep = home / "one" / "two"
    disk.make_directory(deep)
    disk.make_directory(deep)
    write(disk, deep / "file", b"")
    write(disk, home / "other", b"")
    assert disk.list(home) == ["one", "other"]
    disk.remove_tree(home / "one")
    disk.remove_tree(home / "one")
    disk.remove_tree(home / "other")
    assert disk.list(home) == ["other"]


def test_a_replaced_file_is_the_old_one_or_the_new_one(place: Place) -> None:
    disk, home = place
    for content in (b"one", b"two"):
        disk.replace_file(home / "file", content)
        assert disk.read_file(home / "file") == content
    assert disk.list(home) == ["file"]


def test_an_open_file_does_not_depend_on_its_name(place: Place) -> None:
    disk, home = place
    file = disk.create(home / "file.tmp")
    disk.rename(home / "file.tmp", home / "file")
    file.write_at(0, [b"abc"])
    assert disk.read_file(home / "file") == b"abc"
    disk.remove(home / "file")
    file.write_at(3, [b"def"])
    file.sync()
    assert file.read_at(0, 10) == b"abcdef"
    file.close()


def test_files_refuse_what_they_were_not_opened_for(place: Place) -> None:
    disk, home = place
    write(disk, home / "file", b"abc")
    file = disk.open_read(home / "file")
    with pytest.raises(DiskFailedError):
        file.write_at(0, [b"x"])
    file.close()
    for call in (lambda: file.read_at(0, 1), file.size, file.sync, file.close):
        with pytest.raises(DiskFailedError):
            call()
    file = disk.open_write(home / "file")
    file.write_at(1, [b"x"])
    assert file.read_at(0, 10) == b"axc"
    file.close()


def test_a_lock_excludes_others_until_it_is_released(place: Place) -> None:
    disk, home = place
    lock = disk.lock(home / "lock")
    with pytest.raises(DirectoryInUseError, match=home.name):
        disk.lock(home / "lock")
    lock.release()
    disk.lock(home / "lock").release()


def test_free_space_is_a_part_of_all(place: Place) -> None:
    disk, home = place
    total, free = disk.free_space(home)
    assert 0 < free <= total


def test_directories_on_one_file_system_have_one_device(place: Place) -> None:
    disk, home = place
    disk.make_directory(home / "a" / "b")
    assert disk.device(home) == disk.device(home / "a" / "b")


# ---- the same calls, the same answers


def script(choose: Random) -> list[tuple[str, tuple[object, ...]]]:
    """Random calls on few names, so that they meet."""
    names = ("a", "b", "d/a", "d/b", "e/a", "d", "e")
    calls: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(80):
        one, other = choose.choice(names), choose.choice(names[:5])
        calls.append(
            choose.choice(
                [
                    ("write", (one, choose.randint(0, 20), choose.randbytes(choose.randint(0, 20)))),
                    ("rewrite", (one, choose.randint(0, 20), choose.randbytes(choose.randint(0, 20)))),
                    ("preallocate", (one, choose.randint(0, 20), choose.randint(1, 20))),
                    ("truncate", (one, choose.randint(0, 25))),
                    ("read", (one,)),
                    ("rename", (other, Path(other).with_name(choose.choice("ab")))),
                    ("remove", (one,)),
                    ("remove_tree", (one,)),
                    ("make_directory", (choose.choice("de"),)),
                    ("replace_file", (one, choose.randbytes(5))),
                    ("list", (choose.choice(["", "d", "e"]),)),
                    ("exists", (one,)),
                ]
            )
        )
    return calls


def answer(disk: Disk, home: Path, call: str, arguments: tuple[object, ...]) -> object:
    """What the call returns, or which error it raises."""
    path, *rest = arguments
    try:
        if call in ("write", "rewrite", "preallocate", "truncate"):
            file: DiskFile = (
                disk.create(home / str(path)) if call == "write" else disk.open_write(home / str(path))
            )
            try:
                if call == "preallocate":
                    return file.preallocate(*rest)  # type: ignore[arg-type]
                if call == "truncate":
                    return file.truncate(*rest), file.size()  # type: ignore[func-returns-value, arg-type]
                return file.write_at(rest[0], [rest[1]]), file.size()  # type: ignore[list-item, arg-type]
            finally:
                file.close()
        if call == "read":
            return disk.read_file(home / str(path))
        if call == "rename":
            return disk.rename(home / str(path), home / str(rest[0]))  # type: ignore[func-returns-value]
        return getattr(disk, call)(home / str(path), *rest)
    except DiskFailedError as error:
        return "failed", error.missing


@pytest.mark.parametrize("seed", range(25))
def test_the_same_calls_get_the_same_answers(seed: int, tmp_path: Path) -> None:
    disks: list[Disk] = [SystemDisk(), new_disk()]
    disks[1].make_directory(tmp_path)
    for number, (call, arguments) in enumerate(script(Random(seed))):
        real, simulated = (answer(disk, tmp_path, call, arguments) for disk in disks)
        assert real == simulated, f"call {number}: {call}{arguments}"


# ---- workers


def test_a_worker_keeps_the_order_and_hands_errors_over(place: Place) -> None:
    disk, home = place

    async def main() -> None:
        worker = disk.worker("test")
        seen: list[object] = []
        for number in range(100):
            worker.submit(
                partial(int, number), lambda result, _error: seen.append(result), brief=number % 3 == 0
            )
            if number % 10 == 0:
                await asyncio.sleep(0)
        assert len(seen) < 100
        with pytest.raises(DiskFailedError):
            await worker.run(lambda: disk.read_file(home / "nowhere"))
        assert seen == list(range(100))
        worker.submit(lambda: None, lambda _result, _error: seen.append("last"))
        await worker.close()
        await worker.close()
        assert seen[-1] == "last"
        with pytest.raises(StorageClosedError):
            await worker.run(lambda: None)

    asyncio.run(main())


def test_a_cancelled_wait_does_not_stop_the_work(place: Place) -> None:
    disk, _ = place

    async def main() -> None:
        worker = disk.worker("test")
        seen: list[int] = []
        waiting = asyncio.ensure_future(worker.run(lambda: seen.append(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        await worker.close()
        assert seen == [1]

    asyncio.run(main())


def test_results_come_after_the_call_that_submitted(place: Place) -> None:
    disk, _ = place

    async def main() -> None:
        worker = disk.worker("test")
        for brief in (True, True, False, True):
            done = asyncio.Event()
            worker.submit(lambda: None, lambda _result, _error, done=done: done.set(), brief=brief)  # type: ignore[misc]
            assert not done.is_set()
            await done.wait()
        await worker.close()

    asyncio.run(main())
