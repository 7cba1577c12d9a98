"""An ordered, checksummed key-value store on disk: RocksDB, used without its write-ahead log.

Invariant: a `write` is atomic and visible immediately, but durable only when a later `sync` has returned; what is
durable is always a prefix of the writes. A damaged block raises StorageError, it never reads as absent.
The journal plays the write-ahead log's part: docs/decisions/0004-index-store.md.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Protocol, TypeVar

from bookie_server.errors import (
    DiskFailedError,
    DiskFullError,
    IndexDamagedError,
    StorageError,
    StorageInUseError,
    TooManyFilesError,
)
from ledger.extras import require

if TYPE_CHECKING:
    from rocksdict import Rdict, RdictIter

_WRITE_BUFFER_BYTES = 8 * 1024 * 1024
_BLOCK_CACHE_BYTES = 16 * 1024 * 1024
_LOG_BYTES_MAX = 1024 * 1024
"""Of one of RocksDB's two own logs, to which each checkpoint adds; without a limit they grow until the process ends."""
_MANIFEST_BYTES_MAX = 4 * 1024 * 1024
"""Of the list of its tables, which each checkpoint makes longer, before it is written anew; 1 GiB without."""
OPEN_FILES_MAX = 128
"""Descriptors of its tables; tables over that are closed and opened again."""
PREFIX_BYTES = 9
"""Keys that begin with the same bytes belong together: in the index, records of one ledger or one entry log."""
_PIECE = 256
"""Records that a scan takes at a time."""
_FULL = ("No space left", "NoSpace", os.strerror(errno.EDQUOT))
"""What RocksDB calls a full disk: a used-up quota is one, as for other files, and has no status of its own there."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class KeyValues(Protocol):
    """What the index needs; thread-safe. A simulator has its own."""

    def get(self, key: bytes) -> bytes | None: ...

    def floor(self, key: bytes, lowest: bytes = b"") -> tuple[bytes, bytes] | None:
        """The record with the greatest key from `lowest` to `key`."""

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Records with first <= key < end, ascending."""

    def write(
        self,
        puts: Iterable[tuple[bytes, bytes]],
        deletes: Iterable[bytes] = (),
    ) -> None:
        """Apply deletes, then puts, as one."""

    def sync(self) -> None:
        """Every write before this call is durable on return. DiskFullError, DiskFailedError."""

    def reopen(self) -> None:
        """After DiskFullError: accept writes again. Those not synced may be forgotten or durable."""

    @property
    def is_open(self) -> bool:
        """False: it could not be opened for writing. Any thread may ask, and gets False also during a `reopen`."""

    def ensure_open(self) -> None:
        """`reopen` unless it is open, which forgets nothing. DiskFullError: it still cannot be opened for writing."""

    def exchange(self, install: Callable[[], None]) -> None:
        """Close, call `install`, which puts another store into this directory, and open that. Reads wait.

        LogStoreError: nothing is open.
        """

    def close(self) -> None: ...


def open_key_values(directory: Path) -> KeyValues:
    return _Rocks(directory)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # RocksDB's binding raises nothing more precise
        raise _write_error(directory, error) from error


def _damaged(directory: Path, error: Exception) -> str:
    return (
        f"index {directory} is damaged ({error}): run `bookie rebuild-index` on the bookie's directories to rebuild it "
        "from the entry logs"
    )


def _cause(directory: Path, error: Exception) -> str:
    """What RocksDB reports, without the path in it: a directory may be called anything."""
    return str(error).replace(str(directory), "")


def _is_damage(directory: Path, error: Exception) -> bool:
    return "Corruption" in _cause(directory, error)


def _write_error(directory: Path, error: Exception) -> DiskFullError | DiskFailedError | IndexDamagedError:
    cause = _cause(directory, error)
    if _is_damage(directory, error):  # a compaction in the background met it, and the next write hears of it
        return IndexDamagedError(_damaged(directory, error), path=directory)
    if any(each in cause for each in _FULL):
        return DiskFullError(
            f"no space left to write index {directory}: free space on its disk", path=directory
        )
    if "Too many open files" in cause:
        return TooManyFilesError(
            f"cannot write index {directory}: too many open files; raise the limit of open files",
            path=directory,
        )
    return DiskFailedError(f"cannot write index {directory}: {error}", path=directory, missing=False)


class _Rocks:
    def __init__(self, directory: Path) -> None:
        # Loaded here: the simulator, and tools that never open an index, work without the library.
        require("a bookie's index", "server", "rocksdict")
        import rocksdict

        self._directory = directory
        self._rocks = rocksdict
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_paranoid_checks(True)
        options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
        options.set_max_open_files(OPEN_FILES_MAX)
        options.set_max_background_jobs(2)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(_LOG_BYTES_MAX)
        options.set_stats_dump_period_sec(0)
        options.set_max_manifest_file_size(_MANIFEST_BYTES_MAX)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_prefix_extractor(rocksdict.SliceTransform.create_fixed_prefix(PREFIX_BYTES))
        self._within_prefix = rocksdict.ReadOptions()
        self._within_prefix.set_prefix_same_as_start(True)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(_BLOCK_CACHE_BYTES))
        options.set_block_based_table_factory(table)
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[assignment,method-assign]  # the stub says method
        self._options = options
        self._full: DiskFullError | None = None
        self._damage_said = False
        self._changed = Condition()
        self._readers = 0
        self._reopening = False
        self._database: Rdict | None = self._open()
        """None: it could not be opened again, for the reason in `_full`."""

    def _open(self) -> Rdict:
        try:
            return self._rocks.Rdict(str(self._directory), self._options)
        except Exception as error:
            failure = _write_error(self._directory, error)
            if isinstance(failure, DiskFullError):
                return self._open_read_only(failure)
            raise self._refusal(error) from error

    def _open_read_only(self, full: DiskFullError) -> Rdict:
        """Opening writes some files; on a full disk reading still works until `reopen` finds room."""
        self._full = full
        try:
            mode = self._rocks.AccessType.read_only()
            return self._rocks.Rdict(str(self._directory), self._options, access_type=mode)
        except Exception as error:
            raise full from error  # most likely there is no index yet

    def _refusal(self, error: Exception) -> IndexDamagedError | StorageInUseError:
        if "/LOCK: " in _cause(self._directory, error):
            return StorageInUseError(
                f"index {self._directory} is used by another process: stop the bookie on these directories",
                path=self._directory,
            )
        return IndexDamagedError(
            f"cannot open index {self._directory} ({error}): if it is damaged, run `bookie rebuild-index` on the "
            "bookie's directories to rebuild it from the entry logs",
            path=self._directory,
        )

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._read(lambda database: database.get(key))
        return value

    def floor(self, key: bytes, lowest: bytes = b"") -> tuple[bytes, bytes] | None:
        return self._read(partial(self._floor, key=key, lowest=lowest))

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        # In pieces, so that a slow reader does not keep the database from being reopened.
        while piece := self._read(partial(self._piece, first=first, end=end)):
            yield from piece
            first = piece[-1][0] + b"\0"

    def _floor(self, database: Rdict, key: bytes, lowest: bytes) -> tuple[bytes, bytes] | None:
        cursor = self._cursor(database, key, lowest)
        cursor.seek_for_prev(key)
        if cursor.valid():
            found = cursor.key()
            return (found, cursor.value()) if found >= lowest else None
        cursor.status()  # raises if it stopped at damage instead of at the beginning
        return None

    def _piece(self, database: Rdict, first: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        """The first records of the range, none if it is empty."""
        found: list[tuple[bytes, bytes]] = []
        cursor = self._cursor(database, first, end)
        cursor.seek(first)
        while cursor.valid() and len(found) < _PIECE:
            key = cursor.key()
            if key >= end:
                return found
            found.append((key, cursor.value()))
            cursor.next()
        cursor.status()  # raises if it stopped at damage
        return found

    def _cursor(self, database: Rdict, key: bytes, other: bytes) -> RdictIter:
        """An iterator that ends with the keys' common prefix, where they have one.

        Without an end, one that finds nothing of its own walks over all deletions that follow.
        """
        prefix = key[:PREFIX_BYTES]
        if len(prefix) < PREFIX_BYTES or other[:PREFIX_BYTES] != prefix:
            return database.iter()
        return database.iter(self._within_prefix)

    def _read(self, read: Callable[[Rdict], T]) -> T:
        with self._changed:
            while self._reopening:
                self._changed.wait()
            self._readers += 1
        try:
            if self._database is None:
                raise self._unopened("read") from self._full
            return self._read_from(self._database, read)
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def _read_from(self, database: Rdict, read: Callable[[Rdict], T]) -> T:
        try:
            return read(database)
        except Exception as error:  # RocksDB's binding raises nothing more precise
            # Its frames would keep a cursor, and that the database from being opened again.
            error.with_traceback(None)
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StorageError:
        if not _is_damage(self._directory, error):
            return StorageError(f"cannot read index {self._directory}: {error}", path=self._directory)
        if not self._damage_said:
            self._damage_said = True
            self._keep_tables()
            logger.error("%s; what it cannot tell is answered as unknown", _damaged(self._directory, error))
        return StorageError(_damaged(self._directory, error), path=self._directory)

    def _keep_tables(self) -> None:
        """A compaction that met the damage would end all writes: none is begun before the index is rebuilt."""
        if self._database is not None:
            with suppress(Exception):  # it only makes time for a rebuild
                self._database.set_options({"disable_auto_compactions": "true"})

    def write(
        self,
        puts: Iterable[tuple[bytes, bytes]],
        deletes: Iterable[bytes] = (),
    ) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        for key, value in puts:
            batch.put(key, value)
        database = self._writable()
        with _writing(self._directory):
            database.write(batch, self._unlogged)

    def sync(self) -> None:
        database = self._writable()
        with _writing(self._directory):
            database.flush(True)

    def _writable(self) -> Rdict:
        if self._full is not None:
            raise self._full.copy()
        if self._database is None:
            raise self._unopened("write")
        return self._database

    def _unopened(self, doing: str) -> StorageError:
        reason = self._full or "it could not be opened again"
        return StorageError(f"cannot {doing} index {self._directory}: {reason}", path=self._directory)

    def reopen(self) -> None:
        """A full disk stops RocksDB until it is reopened; it may flush on closing, or may not."""
        self._open_again(lambda: None)

    @property
    def is_open(self) -> bool:
        return self._database is not None and self._full is None

    def ensure_open(self) -> None:
        if not self.is_open:
            self.reopen()
        if self._full is not None:
            raise self._full.copy()

    def exchange(self, install: Callable[[], None]) -> None:
        self._open_again(install)
        self._damage_said = False

    def _open_again(self, while_closed: Callable[[], None]) -> None:
        with self._changed:
            # Whoever reads keeps the files locked, so that they could not be opened again.
            self._reopening = True
            while self._readers:
                self._changed.wait()
        try:
            if self._database is not None:
                with suppress(Exception):  # the failure that closing reports again is why we are here
                    self._database.close()
            self._full = self._database = None
            while_closed()
            self._database = self._open()
        finally:
            with self._changed:
                self._reopening = False
                self._changed.notify_all()

    def close(self) -> None:
        if self._database is not None:
            with _writing(self._directory):
                self._database.close()
