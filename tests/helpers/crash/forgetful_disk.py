"""A disk that remembers what it would still hold after a power cut: only what was synced.

It works on real files. Beside them it keeps, per file, the bytes of the last completed sync and, per
directory, the names of the last directory sync. An image of that is what a machine may find at boot; the
bytes that were written and not synced may be missing, or there, or there in part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bookie_server.disk.rocksdb_store import KeyValues
from bookie_server.disk.system_disk import SystemDisk, SystemFile
from bookie_server.errors import DiskFailedError

Hook = Callable[[str, Path], None]


class _Inode:
    def __init__(self) -> None:
        self.durable = b""


class _File(SystemFile):
    def __init__(self, disk: ForgetfulDisk, inner: SystemFile, inode: _Inode) -> None:
        super().__init__(inner.path, inner._descriptor)
        self._disk = disk
        self._inode = inode

    def write_at(self, offset: int, parts: Sequence[bytes]) -> int:
        self._disk.effect("write", self.path)
        return super().write_at(offset, parts)

    def write_uncached(self, offset: int, parts: Sequence[bytes]) -> int:
        self._disk.effect("write", self.path)
        return super().write_uncached(offset, parts)

    def sync(self) -> None:
        self._disk.effect("sync", self.path)
        super().sync()
        self._inode.durable = self.read_at(0, self.size())
        self._disk.effect("synced", self.path)


class _Store:
    """The index's store; its own crash safety is RocksDB's, so a sync is one step here."""

    def __init__(self, disk: ForgetfulDisk, inner: KeyValues, directory: Path) -> None:
        self._disk = disk
        self._inner = inner
        self._directory = directory

    def get(self, key: bytes) -> bytes | None:
        return self._inner.get(key)

    def floor(self, key: bytes, lowest: bytes = b"") -> tuple[bytes, bytes] | None:
        return self._inner.floor(key, lowest)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._inner.scan(first, end)

    def write(
        self,
        puts: Iterable[tuple[bytes, bytes]],
        deletes: Iterable[bytes] = (),
    ) -> None:
        self._inner.write(puts, deletes)

    def sync(self) -> None:
        self._disk.effect("sync", self._directory)
        self._inner.sync()
        self._disk.remember_store(self._directory)
        self._disk.effect("synced", self._directory)

    def reopen(self) -> None:
        self._inner.reopen()

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def ensure_open(self) -> None:
        self._inner.ensure_open()

    def close(self) -> None:
        self._inner.close()


class ForgetfulDisk(SystemDisk):
    """`hook` is called, in whatever thread, before and after each effect; it may raise to inject an error."""

    def __init__(self, hook: Hook | None = None) -> None:
        super().__init__()
        self.hook = hook
        self._lock = threading.RLock()
        self._names: dict[Path, _Inode] = {}
        self._durable_names: dict[Path, _Inode] = {}
        self._stores: dict[Path, dict[str, bytes]] = {}

    def effect(self, kind: str, path: Path) -> None:
        if self.hook is not None:
            with self._lock:
                self.hook(kind, path)

    def _open(self, doing: str, path: Path, flags: int) -> SystemFile:
        inner = super()._open(doing, path, flags)
        with self._lock:
            if doing == "create":
                self._names[path] = _Inode()
            return _File(self, inner, self._names.setdefault(path, _Inode()))

    def rename_durably(self, source: Path, target: Path) -> None:
        with self._lock:
            self._names[target] = self._names.pop(source)
        super().rename_durably(source, target)

    def sync_directory(self, directory: Path) -> None:
        self.effect("sync", directory)
        super().sync_directory(directory)
        with self._lock:
            for path in [path for path in self._durable_names if path.parent == directory]:
                del self._durable_names[path]
            self._durable_names |= {p: inode for p, inode in self._names.items() if p.parent == directory}
        self.effect("synced", directory)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._names.pop(path, None)
        super().remove(path)
        self.effect("removed", path)

    def open_key_values(self, directory: Path) -> KeyValues:
        inner = super().open_key_values(directory)
        self.remember_store(directory)
        return _Store(self, inner, directory)

    def remember_store(self, directory: Path) -> None:
        with self._lock:
            self._stores[directory] = {
                path.name: path.read_bytes() for path in directory.iterdir() if path.name != "LOCK"
            }

    # ---- images

    def image(
        self, source: Path, target: Path, *, removed_names_stay: bool = False, torn: float = 0.0
    ) -> Path:
        """Write what a boot may find of everything under `source` to `target`.

        `torn` is the part of each file's unsynced bytes that reached the disk anyway, from the front on.
        """
        with self._lock:
            names = dict(self._durable_names)
            if not removed_names_stay:
                names = {path: inode for path, inode in names.items() if path in self._names}
            for path, inode in names.items():
                # A name that was since given to another file keeps the old one's bytes.
                written = torn if self._names.get(path) is inode else 0.0
                self._put(target / path.relative_to(source), _torn(inode.durable, path, written))
            for directory, files in self._stores.items():
                for name, content in files.items():
                    self._put(target / directory.relative_to(source) / name, content)
        return target

    def _put(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _torn(durable: bytes, path: Path, part: float) -> bytes:
    if not part or not path.exists():
        return durable
    current = path.read_bytes()
    padded = durable.ljust(len(current), b"\0")
    changed = [at for at in range(0, len(current), 512) if current[at : at + 512] != padded[at : at + 512]]
    if not changed:
        return durable
    first = next(at for at in range(changed[0], len(current)) if current[at] != padded[at])
    stop = first + int(part * (min(len(current), changed[-1] + 512) - first))
    return padded[:first] + current[first:stop] + padded[stop:]


class FailingDisk(ForgetfulDisk):
    """The `number`-th effect of this kind on a path that contains `part` fails with an I/O error."""

    def __init__(self, kind: str, part: str, number: int) -> None:
        super().__init__(self._maybe_fail)
        self._kind, self._part, self._left = kind, part, number
        self.armed = False
        self.failed_count = 0
        self.delay_s = 0.0
        """How long the failing effect takes to fail, so that others queue up behind it."""

    def _maybe_fail(self, kind: str, path: Path) -> None:
        if self.armed and kind == self._kind and self._part in str(path):
            self._left -= 1
            if self._left == 0:
                self.failed_count += 1
                time.sleep(self.delay_s)
                raise DiskFailedError(f"cannot {kind} {path}: injected", path=path)
