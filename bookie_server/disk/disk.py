"""What the bookie asks of its disks: files, names, an index store, and workers that wait for them.

`bookie_server/disk/system_disk.py` is the real one. A simulator passes its own, so no other module may touch a file, a
thread or a file descriptor. Both pass tests/conformance/test_disks.py.

Laws of every disk:

- What a `write_at` did is durable only after `sync` of that file has returned, in whole; before, any part of it
  may survive a power cut. Bytes that were durable and are not written again stay as they are.
- A name that was created, renamed or removed is durable only after `sync_directory` of its directory has
  returned. A rename is atomic: at any time, and after a crash, the target is the old file or the new one.
- The end of the process alone loses nothing that was written; an index store may forget what it did not sync.
- Errors are DiskFullError (nothing is lost, space is missing; TooManyFilesError: a descriptor is) and
  DiskFailedError (never repeat the call: after a failed sync the kernel may have dropped the pages and would
  report success). `missing` on the latter says that the name does not exist, `unreadable` that a sector is bad.
- Methods block: call them in a worker, except where a caller says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from bookie_server.disk.rocksdb_store import KeyValues
from ledger.errors import LogStoreError

T = TypeVar("T")
Done = Callable[[T | None, LogStoreError | None], None]


class ReadableFile(Protocol):
    """An open file, for those that only read. One thread uses it at a time."""

    path: Path
    """Where it was opened; a caller that renames the file sets it."""

    def size(self) -> int: ...

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file."""


class DiskFile(ReadableFile, Protocol):
    """An open file. One thread uses it at a time."""

    def write_at(self, offset: int, parts: Sequence[bytes]) -> int:
        """Write the parts one after the other; the offset after them. Not durable before `sync`.

        What lies between the old end of the file and `offset` reads as zeros. After an error any part may be there.
        """

    def write_uncached(self, offset: int, parts: Sequence[bytes]) -> int:
        """As `write_at`, for bytes that no client is about to read: the disk may keep them out of memory."""
        return self.write_at(offset, parts)

    def preallocate(self, offset: int, size: int) -> None:
        """Make room, so that writes within it cannot meet a full disk. DiskFullError changes no content.

        A file that ended before `offset + size` ends there afterwards, filled up with zeros.
        """

    def truncate(self, size: int) -> None:
        """Give back the space after `size`, if the file has any there. Durable with the next `sync`."""

    def sync(self) -> None:
        """Every byte written before this call is durable on return, and so is the file's size."""

    def close(self) -> None: ...


class DiskLock(Protocol):
    """An exclusive lock between processes; it ends with its holder."""

    def release(self) -> None: ...


class DiskWorker(Protocol):
    """Runs jobs in parallel to the event loop that started it, and passes their results to that loop.

    Invariant: jobs run one at a time and in the order of `submit`, and each `done` is called on the loop, in that
    order, never before `submit` has returned.
    """

    def submit(self, work: Callable[[], T], done: Done[T], *, brief: bool = False) -> None:
        """Run `work`, then `done(result, error)` on the loop. StorageClosedError after `close`.

        A job announced as brief may run on the loop itself, at the end of this iteration.
        """

    async def run(self, work: Callable[[], T], on_error: Callable[[LogStoreError], None] | None = None) -> T:
        """Run `work` and wait for it. Cancelling the wait does not stop the work, and `on_error` still hears of it."""
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(result: T | None, error: LogStoreError | None) -> None:
            if error is not None and on_error is not None:
                on_error(error)
            if waiter.done():
                return
            if error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(result)  # type: ignore[arg-type]  # None only where T includes it

        self.submit(work, settle)
        return await waiter

    async def close(self) -> None:
        """Finish the jobs submitted so far and stop."""


class Disk(Protocol):
    """The machine's file systems.

    What is made of several steps is written here once, so that a crash falls between the same steps on every disk.
    """

    def worker(self, name: str) -> DiskWorker:
        """A new worker for the running loop."""

    # ---- files

    def create(self, path: Path) -> DiskFile:
        """A new empty file, replacing a leftover of the same name. Its name is not durable yet."""

    def open_write(self, path: Path) -> DiskFile:
        """An existing file for reading and writing at offsets."""

    def open_read(self, path: Path) -> DiskFile: ...

    def read_file(self, path: Path) -> bytes:
        file = self.open_read(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def replace_file(self, path: Path, content: bytes) -> None:
        """Durably put `content` under `path`: readers and crashes see the old file or the new one."""
        temporary = path.with_name(path.name + ".tmp")
        file = self.create(temporary)
        try:
            file.write_at(0, [content])
            file.sync()
        finally:
            file.close()
        self.rename_durably(temporary, path)

    # ---- names

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one directory. A crash may undo it until the directory is synced."""

    def rename_durably(self, source: Path, target: Path) -> None:
        """Rename within one directory and make the new name durable."""
        self.rename(source, target)
        self.sync_directory(target.parent)

    def sync_directory(self, directory: Path) -> None:
        """Every change of names in the directory before this call is durable on return."""

    def make_directory(self, directory: Path) -> None:
        """Make it, with missing parents, durably. Existing is fine."""
        if self.exists(directory):
            # It may have been made by a process that was killed before it could sync.
            self.sync_existing(directory)
            return
        if directory.parent != directory:
            self.make_directory(directory.parent)
        self.make_name(directory)
        self.sync_directory(directory.parent)

    def sync_existing(self, directory: Path) -> None:
        """The name of a directory that exists is durable on return, if this process could have made it."""
        self.sync_directory(directory.parent)

    def make_name(self, directory: Path) -> None:
        """One step of `make_directory`: an empty directory, not durable yet. Existing is fine."""

    def list(self, directory: Path) -> list[str]:
        """File names in the directory, sorted."""

    def exists(self, path: Path) -> bool:
        """False is proof that nothing has this name. DiskFailedError: it is not known."""

    def remove(self, path: Path) -> None:
        """Remove the name if it is there. A crash may bring it back until the directory is synced."""

    def remove_large(self, path: Path) -> Callable[[], None]:
        """As `remove`. Call what it returns once no read has the file open: its space is freed from then on, in
        steps so small that the syncs of other files hardly wait.
        """
        self.remove(path)
        return _nothing_to_free

    @property
    def frees_much(self) -> bool:
        """Whether so much space of files that `remove_large` has removed is yet to come back that those who can wait
        should remove no more of them now. From any thread; does not block."""
        return False

    def remove_tree(self, directory: Path) -> None:
        """Remove the directory and everything in it. Links in it are removed, not followed."""

    def lock(self, path: Path) -> DiskLock:
        """Take the lock file at `path`, made if missing, until `release` or the end of the process.

        DirectoryInUseError if another process holds it.
        """

    def free_space(self, directory: Path) -> tuple[int, int]:
        """(total, free) bytes of the directory's file system, as far as they are ours to use.

        Blocks kept back for root or by a quota are in neither number, so free / total is what `df` shows.
        """

    def device(self, directory: Path) -> int:
        """The same number for two directories on one file system, another one for those on another."""

    # ---- the index's store

    def open_key_values(self, directory: Path) -> KeyValues:
        """The ordered key-value store in this directory, made if missing. IndexDamagedError."""


def _nothing_to_free() -> None:
    """Of a file without space of its own."""
