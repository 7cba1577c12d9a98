"""A disk of file images, for targets that read files: as much of one as reading at start needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.errors import DiskFailedError


class ImageFile(DiskFile):
    def __init__(self, path: Path, content: bytearray) -> None:
        self.path = path
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._content[offset : offset + size])

    def write_at(self, offset: int, parts: Sequence[bytes]) -> int:
        for part in parts:
            if len(self._content) < offset:
                self._content.extend(bytes(offset - len(self._content)))
            self._content[offset : offset + len(part)] = part
            offset += len(part)
        return offset

    def preallocate(self, offset: int, size: int) -> None:
        self._content.extend(bytes(max(0, offset + size - len(self._content))))

    def truncate(self, size: int) -> None:
        del self._content[size:]

    def sync(self) -> None: ...

    def close(self) -> None: ...


class ImageDisk(Disk):
    """All files in one directory; every write is durable."""

    def __init__(self) -> None:
        self.files: dict[Path, bytearray] = {}

    def create(self, path: Path) -> DiskFile:
        self.files[path] = bytearray()
        return ImageFile(path, self.files[path])

    def open_write(self, path: Path) -> DiskFile:
        return self.open_read(path)

    def open_read(self, path: Path) -> DiskFile:
        if path not in self.files:
            raise DiskFailedError(f"there is no file {path}", path=path, missing=True)
        return ImageFile(path, self.files[path])

    def read_file(self, path: Path) -> bytes:
        return bytes(self.files[path])

    def rename(self, source: Path, target: Path) -> None:
        self.files[target] = self.files.pop(source)

    def sync_directory(self, directory: Path) -> None: ...

    def list(self, directory: Path) -> list[str]:
        return sorted(path.name for path in self.files)

    def exists(self, path: Path) -> bool:
        return path in self.files

    def remove(self, path: Path) -> None:
        self.files.pop(path, None)


class ImageKeyValues:
    """An index store of these records."""

    def __init__(self, records: dict[bytes, bytes]) -> None:
        self.records = records

    def get(self, key: bytes) -> bytes | None:
        return self.records.get(key)

    def floor(self, key: bytes, lowest: bytes = b"") -> tuple[bytes, bytes] | None:
        found = max((each for each in self.records if lowest <= each <= key), default=None)
        return None if found is None else (found, self.records[found])

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted((key, value) for key, value in self.records.items() if first <= key < end))

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        for key in deletes:
            self.records.pop(key, None)
        self.records.update(puts)

    def sync(self) -> None: ...

    def reopen(self) -> None: ...

    def close(self) -> None: ...
