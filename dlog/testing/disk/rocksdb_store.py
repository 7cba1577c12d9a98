"""The twin of the index's store: RocksDB without its write-ahead log, as far as its promise in rocksdb_store.py goes.

A write is in memory until `sync`, or until the store itself decides to flush; so the end of the process, a power
cut, a failed sync or `close` leave a prefix of the unsynced writes, any prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bookie_server.errors import (
    DiskFailedError,
    DiskFullError,
    IndexDamagedError,
    StorageError,
    StorageInUseError,
    TooManyFilesError,
)
from dlog.testing.disk.media import Media
from dlog.testing.disk.rocksdb_state import Batch, StoreState
from dlog.testing.disk.state import Directory
from ledger.errors import LogStoreError

_OPENING_BYTES = 4096
"""What opening the store writes; on a disk with less room it can only be read."""


class SimulatedKeyValues:
    """One handle on the store in a directory; there is one at a time."""

    def __init__(self, media: Media, home: Callable[[], Directory], directory: Path) -> None:
        """`home` finds the directory."""
        self._media = media
        self._life = media.life
        self._home = home
        self._directory = directory
        self._state = self._opened()
        self._failure: DiskFullError | DiskFailedError | None = None
        """After a failed sync nothing is written until `reopen`."""
        self._open = True
        self._readable = True
        if media.free_bytes() < _OPENING_BYTES:
            self._failure = self._media.full("write index", directory)

    def _opened(self) -> StoreState:
        self._media.require_descriptor("open index", self._directory)
        home = self._home()
        store = home.store
        if store is None:
            if self._media.free_bytes() < _OPENING_BYTES:
                raise self._media.full("write index", self._directory)
            self._media.effect(self._life, "kv.create", self._directory)
            store = home.store = StoreState()
        if store.locked:
            raise StorageInUseError(
                f"index {self._directory} is in use: stop the other bookie on these directories first",
                path=self._directory,
            )
        if store.unopenable:
            raise IndexDamagedError(
                f"index {self._directory} cannot be opened (damaged): run `bookie rebuild-index`",
                path=self._directory,
            )
        self._life.holds(store)
        return store

    # ---- reading

    def get(self, key: bytes) -> bytes | None:
        self._require_readable(key)
        return self._state.records.values.get(key)

    def floor(self, key: bytes, lowest: bytes = b"") -> tuple[bytes, bytes] | None:
        self._require_readable(key)
        records = self._state.records
        found = records.floor(key)
        if found is None or found < lowest:
            return None
        self._require_readable(found)
        return found, records.values[found]

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._require_readable(first)
        records = self._state.records
        for key, value in [(key, records.values[key]) for key in records.between(first, end)]:
            self._require_readable(key)
            yield key, value

    def _require_readable(self, key: bytes) -> None:
        self._require_open()
        clock = self._media.clock
        clock.spend(clock.timing.read_s)
        if not self._readable:
            raise StorageError(
                f"cannot read index {self._directory}: {self._failure}", path=self._directory
            ) from self._failure
        if self._state.is_damaged(key) or self._media.faults.strikes("read_error", self._directory):
            raise StorageError(f"index {self._directory} cannot be read: damaged", path=self._directory)

    # ---- writing

    def write(
        self,
        puts: Iterable[tuple[bytes, bytes]],
        deletes: Iterable[bytes] = (),
    ) -> None:
        self._require_writable()
        batch = Batch(tuple(puts), tuple(deletes))
        self._media.effect(
            self._life, "kv.write", self._directory, f"{len(batch.puts)} puts, {len(batch.deletes)} deletes"
        )
        self._state.write(batch)

    def sync(self) -> None:
        self._require_writable()
        state, faults, clock = self._state, self._media.faults, self._media.clock
        self._media.effect(self._life, "kv.sync", self._directory, f"{len(state.pending)} writes")
        clock.spend(clock.timing.sync_s)
        if state.pending_bytes > self._media.free_bytes():
            self._failure = self._media.full("write index", self._directory)
        elif self._media.lacks_descriptor(self._directory):
            self._failure = TooManyFilesError(
                f"cannot write index {self._directory}: too many open files", path=self._directory
            )
        elif faults.strikes("sync_error", self._directory):
            self._failure = self._media.failure("sync", self._directory)
        self._require_writable()
        state.sync()

    def reopen(self) -> None:
        self._require_open()
        self._forget_some()
        try:
            self._media.require_descriptor("open index", self._directory)
        except TooManyFilesError as error:
            # It was closed before: nothing can be read either until it can be opened.
            self._failure, self._readable = error, False
            raise
        self._failure, self._readable = None, True
        if self._media.free_bytes() < _OPENING_BYTES:
            self._failure = self._media.full("write index", self._directory)

    @property
    def is_open(self) -> bool:
        return self._readable and not isinstance(self._failure, DiskFullError)

    def ensure_open(self) -> None:
        if not self.is_open:
            self.reopen()
        if isinstance(self._failure, DiskFullError):
            raise self._failure

    def exchange(self, install: Callable[[], None]) -> None:
        # Reads that would wait for it are answered as if they had come before.
        self._require_open()
        self._forget_some()
        self._state.locked = False
        try:
            install()
            self._state = self._opened()
        except LogStoreError:
            self._readable = False
            raise
        self._failure = None
        if self._media.free_bytes() < _OPENING_BYTES:
            self._failure = self._media.full("write index", self._directory)

    def close(self) -> None:
        if self._open and self._life.goes_on:
            self._open = False
            self._forget_some()
            self._state.locked = False

    def _forget_some(self) -> None:
        self._state.forget(self._media.faults.chance.randint(0, len(self._state.pending)))

    def _require_writable(self) -> None:
        self._require_open()
        if self._failure is not None:
            raise self._failure

    def _require_open(self) -> None:
        self._life.require()
        if not self._open:
            raise StorageError(f"index {self._directory} is closed", path=self._directory)
