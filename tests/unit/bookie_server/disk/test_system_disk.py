"""The module that touches the disk: private files, typed errors, workers that keep their order."""

import asyncio
import errno
import fcntl
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.freed_space import STEP_BYTES, WAITING_MAX
from bookie_server.disk.system_disk import SystemDisk, SystemWorker
from bookie_server.errors import (
    DirectoryInUseError,
    DiskFailedError,
    StorageClosedError,
    StorageInUseError,
)
from tests.helpers.bookie.open_files import removed_and_open
from tests.helpers.bookie.storage import open_storage
from tests.helpers.processes.bookie import eventually


def test_written_parts_are_read_back_also_when_there_are_many(tmp_path: Path) -> None:
    """More parts than one vector write takes."""
    file = SystemDisk().create(tmp_path / "file")
    parts = [bytes([number % 251]) * (number % 7) for number in range(5000)]
    end = file.write_at(10, parts)
    assert file.read_at(10, end - 10) == b"".join(parts)
    assert file.read_at(end - 3, 100) == b"".join(parts)[-3:]
    file.close()


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SystemDisk().create(tmp_path / "file")
    whole = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: whole(fd, b"".join(parts)[:3], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, data[:2], at))
    file.write_at(0, [b"abcdef", b"ghij"])
    assert file.read_at(0, 100) == b"abcdefghij"
    file.close()


@pytest.mark.parametrize("how", ["refused", "short", "no such flag"])
def test_a_file_system_that_cannot_write_past_the_cache_gets_the_bytes_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    whole, tries = os.pwrite, list[int]()

    def pwrite(descriptor: int, data: bytes, at: int) -> int:
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            return whole(descriptor, data, at)
        tries.append(at)
        if how == "refused":
            raise OSError(errno.EINVAL, "Invalid argument")
        return whole(descriptor, memoryview(data)[:8192], at)

    if how == "no such flag":
        monkeypatch.delattr(os, "O_DIRECT")
    else:
        monkeypatch.setattr(os, "pwrite", pwrite)
    file = SystemDisk().create(tmp_path / "file")
    data = os.urandom(600_000)
    assert file.write_uncached(100, [data]) == 600_100
    assert file.write_uncached(600_100, [data]) == 1_200_100
    assert file.read_at(0, 1_300_000) == bytes(100) + data + data
    assert len(tries) == {"refused": 1, "short": 2, "no such flag": 0}[how]
    file.close()


def test_a_failed_write_past_the_cache_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(_descriptor: int, _data: bytes, _at: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", pwrite)
    file = SystemDisk().create(tmp_path / "file")
    with pytest.raises(DiskFailedError, match="Input/output"):
        file.write_uncached(0, [bytes(600_000)])
    file.close()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(DiskFailedError):
        SystemDisk().create(tmp_path / "link")
    assert (tmp_path / "target").read_bytes() == b"secret"


def test_a_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(DiskFailedError, match="nowhere"):
        SystemDisk().read_file(tmp_path / "nowhere")


def test_a_replaced_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    disk = SystemDisk()
    for content in (b"one", b"two"):
        disk.replace_file(tmp_path / "file", content)
        assert disk.read_file(tmp_path / "file") == content
    assert disk.list(tmp_path) == ["file"]


def test_the_space_of_a_large_file_comes_back_in_steps_once_nobody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, cut = list[int](), os.ftruncate

    def ftruncate(descriptor: int, size: int) -> None:
        sizes.append(size)
        cut(descriptor, size)

    monkeypatch.setattr(os, "ftruncate", ftruncate)
    disk, path, data = SystemDisk(), tmp_path / "file", os.urandom(3 * STEP_BYTES - 5)
    file = disk.create(path)
    file.write_at(0, [data])
    free = disk.remove_large(path)
    assert not path.exists()
    assert file.read_at(0, len(data)) == data, "a reader has its file until the space is freed"
    free()
    eventually(lambda: file.size() == 0)
    assert sizes == [2 * STEP_BYTES - 5, STEP_BYTES - 5, 0]
    file.close()
    eventually(lambda: not removed_and_open(tmp_path))


def test_what_cannot_be_examined_is_not_taken_for_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, circle = SystemDisk(), tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(DiskFailedError, match="cannot examine"):
        disk.exists(circle)
    (tmp_path / "file").touch()
    assert not disk.exists(tmp_path / "file" / "below")
    assert not disk.exists(tmp_path / "nowhere")
    assert disk.exists(tmp_path / "file")

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        with pytest.raises(DiskFailedError, match="cannot examine"):
            disk.exists(tmp_path / "file")


@pytest.mark.parametrize("may_write", [False, True])
def test_a_directory_that_exists_needs_no_parent_that_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_write: bool
) -> None:
    """An administrator made it, and the bookie's user may pass through the parent and no more."""
    (tmp_path / "bookie").mkdir()
    real_open = os.open

    def denied(path: Any, flags: int, *others: Any, **more: Any) -> int:
        if path == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real_open(path, flags, *others, **more)

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(os, "access", lambda path, mode: may_write)
    if may_write:
        with pytest.raises(
            DiskFailedError, match="Permission denied"
        ):  # it may have made it itself, not durably
            SystemDisk().make_directory(tmp_path / "bookie")
    else:
        SystemDisk().make_directory(tmp_path / "bookie")
    with pytest.raises(DiskFailedError, match="Permission denied"):
        SystemDisk().make_directory(tmp_path / "new")


def test_files_that_wait_for_their_space_take_few_descriptors(tmp_path: Path) -> None:
    """A bookie from which a large log was deleted removes thousands of files."""
    disk, paths = SystemDisk(), [tmp_path / str(number) for number in range(3 * WAITING_MAX)]
    for path in paths:
        file = disk.create(path)
        file.preallocate(0, 32 * STEP_BYTES)
        file.close()
    for path in paths:
        disk.remove_large(path)()
        assert not path.exists()
        assert len(removed_and_open(tmp_path)) <= WAITING_MAX + 1
    assert disk.frees_much
    eventually(lambda: not removed_and_open(tmp_path))
    assert not disk.frees_much


def test_a_file_with_another_name_keeps_its_bytes_when_one_is_removed(tmp_path: Path) -> None:
    """A hard link, as `cp -al` makes it for a backup."""
    disk, path, copy = SystemDisk(), tmp_path / "file", tmp_path / "copy"
    path.write_bytes(b"data")
    copy.hardlink_to(path)
    disk.remove_large(path)()
    eventually(lambda: not removed_and_open(tmp_path))
    assert copy.read_bytes() == b"data"


def test_a_close_that_fails_keeps_no_space_of_later_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage collection would wait for it."""
    closed, close = list[int](), os.close

    def failing_close(descriptor: int) -> None:
        close(descriptor)
        if threading.current_thread().name == "freed-space":
            closed.append(descriptor)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "close", failing_close)
    disk = SystemDisk()
    for number in range(3):
        path = tmp_path / str(number)
        path.write_bytes(b"data")
        disk.remove_large(path)()
    eventually(lambda: len(closed) == 3)
    assert not removed_and_open(tmp_path)


def test_a_large_file_is_removed_at_once_where_it_cannot_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = SystemDisk(), tmp_path / "file"
    disk.remove_large(path)()  # is not there: as with `remove`
    disk.create(path).close()

    def no_descriptor(*arguments: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", no_descriptor)
    free = disk.remove_large(path)
    monkeypatch.undo()
    free()
    assert not path.exists()


def test_a_worker_keeps_the_order_and_hands_errors_over(tmp_path: Path) -> None:
    async def main() -> None:
        worker = SystemDisk().worker("test")
        seen: list[object] = []
        for number in range(100):
            worker.submit(lambda number=number: number, lambda result, _error: seen.append(result))  # type: ignore[misc]
        with pytest.raises(DiskFailedError):
            await worker.run(lambda: SystemDisk().read_file(tmp_path / "nowhere"))
        assert seen == list(range(100))
        await worker.close()
        with pytest.raises(StorageClosedError):
            await worker.run(lambda: None)

    asyncio.run(main())


def test_brief_jobs_run_on_the_loop_while_they_are_quick(tmp_path: Path) -> None:
    """The first goes to the thread; after a quick one the loop does it; after a slow one the thread does again."""

    async def main() -> None:
        worker = SystemDisk().worker("test")
        where: list[int] = []

        async def one(work: Callable[[], None] = lambda: None) -> None:
            done = asyncio.get_running_loop().create_future()

            def job() -> None:
                where.append(threading.get_ident())
                work()

            worker.submit(job, lambda _result, error: done.set_result(error), brief=True)
            assert await done is None

        slow = threading.Event()
        here = threading.get_ident()
        await one()
        assert where[-1] != here
        worker._brief_s = 0.0  # as after a quick one
        await one(lambda: slow.wait(0.01) and None)
        assert where[-1] == here
        await one()
        assert where[-1] != here
        await worker.close()

    asyncio.run(main())


def test_a_disk_that_is_slow_now_and_then_stalls_the_loop_once(tmp_path: Path) -> None:
    """Every second sync takes 10 ms. Before, each quick one brought the slow one after it back onto the loop."""

    async def main() -> None:
        worker = SystemDisk().worker("test")
        here, stalls = threading.get_ident(), 0

        def job(seconds: float) -> None:
            nonlocal stalls
            threading.Event().wait(seconds)
            stalls += seconds > 0 and threading.get_ident() == here

        for number in range(20):
            done = asyncio.get_running_loop().create_future()
            work = partial(job, 0.01 * (number % 2))
            worker.submit(work, lambda _result, error, done=done: done.set_result(error), brief=True)  # type: ignore[misc]
            assert await done is None
        assert stalls <= 1
        await worker.close()

    asyncio.run(main())


def test_brief_jobs_keep_the_order_of_all_jobs(tmp_path: Path) -> None:
    """One that waits for the end of the iteration is not overtaken by what is submitted behind it."""

    async def main() -> None:
        worker = SystemDisk().worker("test")
        seen: list[int] = []
        for number in range(300):
            worker._brief_s = 0.0
            work = partial(seen.append, number)
            worker.submit(work, lambda _result, _error: None, brief=number % 3 != 1)
            if number % 5 == 0:
                await asyncio.sleep(0)
        worker._brief_s = 0.0
        await asyncio.sleep(0.01)
        worker.submit(partial(seen.append, 300), lambda _result, _error: None, brief=True)
        await worker.close()
        assert seen == list(range(301))

    asyncio.run(main())


def test_a_brief_job_hands_its_error_over(tmp_path: Path) -> None:
    async def main() -> None:
        worker = SystemDisk().worker("test")
        worker._brief_s = 0.0
        failed = asyncio.get_running_loop().create_future()
        worker.submit(
            lambda: SystemDisk().read_file(tmp_path / "nowhere"),
            lambda _result, error: failed.set_result(error),
            brief=True,
        )
        assert isinstance(await failed, DiskFailedError)
        await worker.close()

    asyncio.run(main())


def test_directories_are_opened_by_one_storage_only(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        with pytest.raises(StorageInUseError, match="used by another process"):
            await open_storage(tmp_path)
        await storage.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_waits_for_a_worker_that_breaks_down_is_refused(tmp_path: Path) -> None:
    def broken() -> None:
        raise MemoryError

    async def main() -> None:
        worker = SystemDisk().worker("test")
        gate = threading.Event()
        jobs = [asyncio.create_task(worker.run(each)) for each in (gate.wait, broken, lambda: None)]
        await asyncio.sleep(0)
        gate.set()
        async with asyncio.timeout(30):
            done = await asyncio.gather(*jobs, return_exceptions=True)
            await worker.close()
        assert list(map(type, done)) == [bool, DiskFailedError, StorageClosedError]

    asyncio.run(main())


def test_what_is_submitted_while_a_worker_closes_is_done_or_refused(tmp_path: Path) -> None:
    async def main() -> None:
        worker = SystemDisk().worker("test")
        closing = asyncio.create_task(worker.close())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            with pytest.raises(StorageClosedError):
                await worker.run(lambda: None)
            await closing

    asyncio.run(main())


async def test_a_close_that_is_cancelled_ends_the_thread_without_an_error() -> None:
    loop = asyncio.get_running_loop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    worker, going_on = SystemWorker("slow"), threading.Event()
    worker.submit(going_on.wait, lambda _result, _error: None)
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    going_on.set()
    await asyncio.to_thread(worker._thread.join, 10)
    await asyncio.sleep(0)
    assert not worker._thread.is_alive() and reported == []


def test_a_file_system_without_locks_is_named_and_no_file_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS without its lock service."""
    disk, path, tried = SystemDisk(), tmp_path / "lock", []

    def flock(descriptor: int, _operation: int) -> None:
        tried.append(descriptor)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(DiskFailedError, match=f"cannot lock {path}: No locks available"):
        disk.lock(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(tried[0])


def test_a_lock_is_that_of_the_file_that_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has opened the file before its holder removes it, and locks it after that."""
    disk, path = SystemDisk(), tmp_path / "lock"
    holders, take = [disk.lock(path)], fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if holders:
            path.unlink()
            holders.pop().release()
        take(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = disk.lock(path)
    with pytest.raises(DirectoryInUseError):
        disk.lock(path)
    lock.release()
