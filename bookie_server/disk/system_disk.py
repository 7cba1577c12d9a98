"""The real disk: the only module that opens, writes, syncs and renames files.

The laws are those of `bookie_server/disk/disk.py`. Errors of the operating system become ours here, once.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from bookie_server.disk.disk import Disk, DiskFile, DiskLock, DiskWorker, Done, T
from bookie_server.disk.freed_space import WAITING_MAX, FreedSpace
from bookie_server.disk.rocksdb_store import KeyValues, open_key_values
from bookie_server.disk.uncached_pages import PIECE_BYTES, Buffer, PartsReader, page_buffer, pages_within
from bookie_server.errors import (
    DirectoryInUseError,
    DiskFailedError,
    DiskFullError,
    StorageClosedError,
    TooManyFilesError,
)
from ledger.errors import LogStoreError

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_UNREADABLE = (errno.EIO, errno.ENODATA)
"""What a read of a bad sector answers, through the page cache and past it."""
_NO_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)
"""What a file system answers that cannot write past the page cache."""
_VECTOR_MAX = 1024  # IOV_MAX of Linux

UNCACHED_BYTES_MIN = 512 * 1024
"""A smaller write goes through the page cache: there it costs less than what is around it."""


@contextmanager
def _translated(doing: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _ours(doing, path, error) from error


def _ours(doing: str, path: Path, error: OSError) -> DiskFullError | DiskFailedError:
    if error.errno in _FULL:
        return DiskFullError(f"no space left to {doing} {path}: free space on its disk", path=path)
    if error.errno in _NO_DESCRIPTOR:
        whose = "this process" if error.errno == errno.EMFILE else "this machine"
        return TooManyFilesError(
            f"cannot {doing} {path}: {whose} has too many open files; raise its limit or close some",
            path=path,
        )
    return DiskFailedError(
        f"cannot {doing} {path}: {error.strerror}",
        path=path,
        missing=error.errno == errno.ENOENT,
        unreadable=doing == "read" and error.errno in _UNREADABLE,
    )


class SystemFile(DiskFile):
    """A file descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._can_bypass_cache = hasattr(os, "O_DIRECT")
        """Until the file system refuses it."""

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        with _translated("examine", self.path):
            return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        with _translated("read", self.path):
            data = os.pread(self._descriptor, size, offset)
            while data and len(data) < size:
                more = os.pread(self._descriptor, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data

    def write_at(self, offset: int, parts: Sequence[bytes]) -> int:
        return self._write(offset, parts)

    def _write(self, offset: int, parts: Sequence[Buffer]) -> int:
        # As in `sync`, no context manager: it would cost a lone append as much as the system call.
        try:
            for start in range(0, len(parts), _VECTOR_MAX):
                offset = self._write_vector(offset, parts[start : start + _VECTOR_MAX])
        except OSError as error:
            raise _ours("write", self.path, error) from error
        return offset

    def _write_vector(self, offset: int, parts: Sequence[Buffer]) -> int:
        end = offset + sum(map(len, parts))
        offset += os.pwritev(self._descriptor, parts, offset)
        if offset < end:  # a short write: rare enough to pay for a join
            rest = memoryview(b"".join(parts))
            while offset < end:
                offset += os.pwrite(self._descriptor, rest[len(rest) - (end - offset) :], offset)
        return offset

    def write_uncached(self, offset: int, parts: Sequence[bytes]) -> int:
        """Whole pages go to the disk past the page cache (O_DIRECT), the begun ones at both ends through it.

        A page in the cache is allocated, copied to, found again by the sync and evicted later, which costs more than
        the write itself. A page that two writes share stays in the cache in between, so none is read back.
        """
        size = sum(map(len, parts))
        pages_start, pages_end = pages_within(offset, offset + size)
        if not self._can_bypass_cache or pages_end - pages_start < UNCACHED_BYTES_MIN:
            return self.write_at(offset, parts)
        rest = PartsReader(parts)
        self._write(offset, rest.take(pages_start - offset))
        with page_buffer() as buffer:
            at = pages_start
            while at < pages_end:
                piece = min(PIECE_BYTES, pages_end - at)
                rest.copy_to(buffer, piece)
                self._write_pages(at, buffer[:piece])
                at += piece
        return self._write(pages_end, rest.take(offset + size - pages_end))

    def _write_pages(self, offset: int, pages: memoryview) -> None:
        written = 0
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
            try:
                written = os.pwrite(self._descriptor, pages, offset)
            finally:
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        except OSError as error:
            if error.errno not in _NO_DIRECT:
                raise _ours("write", self.path, error) from error
            self._can_bypass_cache = False
        if written < len(pages):
            self._write(offset + written, [pages[written:]])

    def preallocate(self, offset: int, size: int) -> None:
        with _translated("make room in", self.path):
            os.posix_fallocate(self._descriptor, offset, size)

    def truncate(self, size: int) -> None:
        with _translated("truncate", self.path):
            # Also where it ends at `size`: a `preallocate` that failed may have left space after it.
            if os.fstat(self._descriptor).st_size >= size:
                os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _ours("sync", self.path, error) from error

    def close(self) -> None:
        with _translated("close", self.path):
            os.close(self._descriptor)


class SystemLock(DiskLock):
    """A locked file; the kernel drops the lock when its holder dies."""

    def __init__(self, file: SystemFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


BRIEF_S_MAX = 0.0005
"""A job up to this long runs on the loop, and delays everything else there: about what waking the thread costs."""
STALL_S = 0.005
"""From here on a job that runs on the loop is felt by every reader."""
STALL_SHARE = 1000
"""After a job of d seconds that long, none runs on the loop for this many times d: stalls take 1/1000 of the time."""


class _Job(NamedTuple):
    work: Callable[[], Any]
    done: Callable[[Any, LogStoreError | None], None]
    brief: bool


class SystemWorker(DiskWorker):
    """One thread that runs jobs in order.

    Waking a thread and being woken by it costs more than a quick sync. So a job announced as brief runs on the
    loop itself, if nothing else is under way and the last such job was quick; a slow disk gets the thread.
    How long a sync will take shows only when it has ended, so one on the loop can stall it. That is bounded by
    what follows: after a stall the thread has all jobs for a while, however quick they are.
    The order of jobs is that of `submit`, wherever they run.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._under_way = 0
        self._brief: _Job | None = None
        self._brief_s = BRIEF_S_MAX + 1.0
        """How long the last brief job took, in seconds; the first one goes to the thread."""
        self._in_thread_until = 0.0
        """No job runs on the loop before this time of `perf_counter`."""
        self._ended = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], done: Done[T], *, brief: bool = False) -> None:
        if self._ended:
            raise StorageClosedError(f"disk worker {self._thread.name} has stopped")
        job = _Job(work, done, brief)
        idle = self._under_way == 0
        self._under_way += 1
        if brief and idle and self._brief_s <= BRIEF_S_MAX and time.perf_counter() >= self._in_thread_until:
            self._brief = job
            self._loop.call_soon(self._run_brief)
        else:
            self._hand_over_brief()
            self._jobs.put(job)

    def _run_brief(self) -> None:
        job, self._brief = self._brief, None
        if job is not None:
            self._carry_out(job, self._finish)

    def _hand_over_brief(self) -> None:
        """What waits for the end of this iteration comes before what is submitted now."""
        job, self._brief = self._brief, None
        if job is not None:
            self._jobs.put(job)

    def _finish(self, job: _Job, result: Any, error: LogStoreError | None) -> None:
        self._under_way -= 1
        job.done(result, error)

    async def close(self) -> None:
        if not self._ended:
            ended: asyncio.Future[None] = self._loop.create_future()

            def end(_result: None, _error: LogStoreError | None) -> None:
                if not ended.done():  # cancelled, by a signal while the bookie starts
                    ended.set_result(None)

            self.submit(lambda: None, end)
            self._jobs.put(None)
            await ended
        self._thread.join()

    def _work(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                self._carry_out(job, self._finish_on_loop)
        finally:
            self._ended = True
            self._loop.call_soon_threadsafe(self._refuse_rest)

    def _refuse_rest(self) -> None:
        """What was submitted before the loop saw that the thread has ended: each of its callers waits."""
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                self._finish(job, None, StorageClosedError(f"disk worker {self._thread.name} has stopped"))

    def _finish_on_loop(self, job: _Job, result: Any, error: LogStoreError | None) -> None:
        self._loop.call_soon_threadsafe(self._finish, job, result, error)

    def _carry_out(self, job: _Job, deliver: Callable[[_Job, Any, LogStoreError | None], object]) -> None:
        result: Any = None
        error: LogStoreError | None = None
        began = time.perf_counter()
        try:
            result = job.work()
        except LogStoreError as failure:
            error = failure
        except BaseException:
            # The work has a bug. It is raised, and no caller waits forever.
            error = DiskFailedError(f"disk worker {self._thread.name} broke down")
            raise
        finally:
            if job.brief:
                ended = time.perf_counter()
                self._brief_s = ended - began
                if self._brief_s > STALL_S:
                    self._in_thread_until = ended + STALL_SHARE * self._brief_s
            deliver(job, result, error)


class SystemDisk(Disk):
    """The machine's own file systems."""

    def __init__(self) -> None:
        self._freed_space = FreedSpace()

    def worker(self, name: str) -> DiskWorker:
        return SystemWorker(name)

    # ---- files

    def create(self, path: Path) -> DiskFile:
        return self._open("create", path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def open_write(self, path: Path) -> DiskFile:
        return self._open("open", path, os.O_RDWR)

    def open_read(self, path: Path) -> DiskFile:
        return self._open("open", path, os.O_RDONLY)

    def _open(self, doing: str, path: Path, flags: int) -> SystemFile:
        with _translated(doing, path):
            return SystemFile(path, os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE))

    # ---- names

    def rename(self, source: Path, target: Path) -> None:
        with _translated("rename", source):
            source.rename(target)

    def sync_directory(self, directory: Path) -> None:
        with _translated("sync directory", directory):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def sync_existing(self, directory: Path) -> None:
        parent = directory.parent
        try:
            self.sync_directory(parent)
        except DiskFailedError as error:
            # Who may not make names there has made none: the directory is durable, or another user's concern.
            if not isinstance(error.__cause__, PermissionError) or os.access(parent, os.W_OK):
                raise

    def make_name(self, directory: Path) -> None:
        with _translated("make directory", directory):
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    def list(self, directory: Path) -> list[str]:
        with _translated("list", directory):
            return sorted(path.name for path in directory.iterdir())

    def exists(self, path: Path) -> bool:
        # Path.exists takes some errors, in Python 3.14 all of them, for absence.
        with _translated("examine", path):
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def remove(self, path: Path) -> None:
        with _translated("remove", path):
            path.unlink(missing_ok=True)

    @property
    def frees_much(self) -> bool:
        return 2 * self._freed_space.waiting > WAITING_MAX

    def remove_large(self, path: Path) -> Callable[[], None]:
        if self._freed_space.waiting >= WAITING_MAX:
            return super().remove_large(path)
        try:
            file = self._open("open", path, os.O_WRONLY)
        except (DiskFailedError, TooManyFilesError):
            return super().remove_large(path)  # which knows about missing files, and needs no descriptor
        try:
            self.remove(path)
        except BaseException:
            file.close()
            raise
        return partial(self._freed_space.add, file.fileno())

    def lock(self, path: Path) -> DiskLock:
        while True:
            file = self._open("lock", path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.close()
                raise DirectoryInUseError(
                    f"{path.parent} is used by another process: stop that bookie or command first",
                    path=path.parent,
                ) from error
            except OSError as error:
                file.close()
                raise _ours("lock", path, error) from error
            if os.fstat(file.fileno()).st_nlink:
                return SystemLock(file)
            file.close()  # its last holder has removed it: others would lock another file

    def remove_tree(self, directory: Path) -> None:
        with _translated("remove", directory):
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)

    def free_space(self, directory: Path) -> tuple[int, int]:
        with _translated("measure", directory):
            numbers = os.statvfs(directory)
        used = numbers.f_blocks - numbers.f_bfree
        return (used + numbers.f_bavail) * numbers.f_frsize, numbers.f_bavail * numbers.f_frsize

    def device(self, directory: Path) -> int:
        with _translated("measure", directory):
            return directory.stat().st_dev

    # ---- the index's store

    def open_key_values(self, directory: Path) -> KeyValues:
        self.make_directory(directory)
        return open_key_values(directory)
