"""Reads small pieces of a file that are near each other with one disk read, and counts what was read. Blocks."""

from __future__ import annotations

from bookie_server.disk.disk import DiskFile, ReadableFile
from bookie_server.errors import DiskFailedError

WINDOW_BYTES = 4096
"""What the system reads from a disk at least, whatever it is asked for."""


class WindowedFile(ReadableFile):
    def __init__(self, file: DiskFile) -> None:
        """Closes `file` when it is closed."""
        self.path = file.path
        self.bytes_read = 0
        self._file = file
        self._start = 0
        self._window = b""

    def size(self) -> int:
        return self._file.size()

    def read_at(self, offset: int, size: int) -> bytes:
        at = offset - self._start
        if not 0 <= at <= len(self._window) - size:
            data = self._read(offset, size)
            self.bytes_read += len(data)
            if size > WINDOW_BYTES:
                return data
            self._start, self._window, at = offset, data, 0
        return self._window[at : at + size]

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._file.read_at(offset, max(size, WINDOW_BYTES))
        except DiskFailedError:
            self.bytes_read += size  # what cannot be read takes time, too
            if size >= WINDOW_BYTES:
                raise
            return self._file.read_at(offset, size)  # a bad sector may be after it

    def close(self) -> None:
        self._file.close()
