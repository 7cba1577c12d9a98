"""A file that only keeps room: given up when the disk is full, so that what is needed to get out of that
state (a checkpoint, which frees journal files; opening the index) still has space.

Pitfall: docs/pitfalls.md#full-disk.
"""

from __future__ import annotations

from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFullError


class Reserve:
    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        self._disk = disk
        self._path = path
        self._size = size

    @property
    def held(self) -> bool:
        return self._size == 0 or self._disk.exists(self._path)

    @property
    def held_bytes(self) -> int:
        """What `release` would free."""
        return self._size if self.held else 0

    def take(self) -> None:
        """Take the room if it is not held. DiskFullError: taken nothing."""
        if self.held:
            return
        temporary = self._path.with_name(self._path.name + ".tmp")
        file = self._disk.create(temporary)
        try:
            file.preallocate(0, self._size)
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
