"""A file that only keeps room: given up when the disk is full, so that what is needed to get out of that
state (a checkpoint, which frees journal files; opening the index) still has space.

Invariant: it is held if its file has the whole size. One with less is of a smaller setting, or of an earlier version of
ours, which did not sync it: a power cut has left its name alone.

Pitfall: docs/pitfalls.md#full-disk.
"""

from __future__ import annotations

from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFailedError, DiskFullError


class Reserve:
    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        self._disk = disk
        self._path = path
        self._size = size
        self._whole = False
        """Whether the file was seen with its whole size; while it has its name it keeps that."""

    @property
    def held(self) -> bool:
        """DiskFullError: no descriptor is left to look with."""
        if self._size == 0:
            return True
        if not self._disk.exists(self._path):
            self._whole = False
        elif not self._whole:
            self._whole = self._file_bytes() >= self._size
        return self._whole

    def _file_bytes(self) -> int:
        try:
            file = self._disk.open_read(self._path)
        except DiskFailedError as error:
            if error.missing:
                return 0  # another worker has released it in the meantime
            raise
        try:
            return file.size()
        finally:
            file.close()

    @property
    def held_bytes(self) -> int:
        """What `release` would free, if all of it is held."""
        return self._size if self.held else 0

    def take(self) -> None:
        """Take the room if it is not held, in the place of a smaller one. DiskFullError: taken nothing."""
        if self.held:
            return
        temporary = self._path.with_name(self._path.name + ".tmp")
        file = self._disk.create(temporary)
        try:
            file.preallocate(0, self._size)
            file.sync()
        except DiskFullError:
            self._disk.remove(temporary)
            raise
        finally:
            file.close()
        self._disk.rename_durably(temporary, self._path)

    def release(self) -> bool:
        """Give the room to others; False if there was none."""
        if not self._disk.exists(self._path):
            return False
        self._disk.remove(self._path)
        self._disk.sync_directory(self._path.parent)
        return True
