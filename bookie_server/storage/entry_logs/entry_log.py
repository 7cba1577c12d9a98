"""Entry logs on disk: blocks are appended by one worker and read by others.

Invariant: bytes after the end that the index knows are garbage of a crash and are overwritten. A reader asks for
exactly the bytes an index record names and believes them only when their CRC, place and ledger agree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.disk.numbered_files import numbers_of
from bookie_server.errors import DiskFailedError, StorageError, TooManyFilesError
from bookie_server.storage.entry_logs.format import (
    FILE_HEADER_BYTES,
    SUFFIX,
    Block,
    check_file_header,
    decode_block,
    encode_file_header,
    file_name,
)
from bookie_server.storage.index import Interval, LogEnd
from ledger.errors import LogStoreError

OPEN_LOGS_MAX = 32
"""Of one reading worker."""


class EntryLogWriter:
    """The log that is written to. Lives in the storage worker."""

    def __init__(self, disk: Disk, directory: Path, log_bytes_max: int, end: LogEnd | None) -> None:
        self._disk = disk
        self._directory = directory
        self._log_bytes_max = log_bytes_max
        self._file: DiskFile | None = None
        self.end = end or LogEnd(0, log_bytes_max)

    def begin(self) -> LogEnd:
        """Where the next block goes; starts a new log when the current one is full or was removed."""
        if self.end.offset >= self._log_bytes_max:
            self._roll()
        elif self._file is None:
            path = self._path(self.end.log_id)
            if self._disk.exists(path):
                self._file = self._disk.open_write(path)
            else:
                self._roll()
        return self.end

    def _roll(self) -> None:
        self.close()
        log_id = self.end.log_id + 1
        file = self._disk.create(self._path(log_id))
        try:
            file.write_at(0, [encode_file_header(log_id)])
            file.sync()
            self._disk.sync_directory(self._directory)
        except LogStoreError:
            file.close()
            raise
        self._file, self.end = file, LogEnd(log_id, FILE_HEADER_BYTES)

    def append(self, parts: Sequence[bytes]) -> None:
        """Write whole blocks, in pieces, at the end. DiskFullError before a byte is changed, if there is no room."""
        assert self._file is not None, "begin() comes first"
        self._file.preallocate(self.end.offset, sum(map(len, parts)))
        self.end = LogEnd(self.end.log_id, self._file.write_at(self.end.offset, parts))

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def back_to(self, end: LogEnd) -> None:
        """Give up what was appended after `end`; it will be overwritten."""
        if end.log_id != self.end.log_id:
            self.close()
        self.end = end

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _path(self, log_id: int) -> Path:
        return self._directory / file_name(log_id)


class EntryLogReader:
    """Reads blocks. Each reading worker has its own, because open files are not shared between threads."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._open: OrderedDict[int, DiskFile] = OrderedDict()

    def read(self, ledger_id: int, intervals: Sequence[Interval]) -> list[Block]:
        """The blocks of intervals that follow each other in one log, with one disk read. StorageError."""
        log_id, start = intervals[0].log_id, intervals[0].offset
        file = self._file(log_id)
        size = intervals[-1].offset + intervals[-1].block_bytes - start
        try:
            data = memoryview(file.read_at(start, size))
        except DiskFailedError as error:
            raise StorageError(str(error), path=file.path, ledger_id=ledger_id) from error
        blocks = []
        for interval in intervals:
            at = interval.offset - start
            part = data[at : at + interval.block_bytes]
            blocks.append(decode_block(part, log_id, interval.offset, ledger_id, file.path))
        return blocks

    def _file(self, log_id: int) -> DiskFile:
        file = self._open.get(log_id)
        if file is not None:
            self._open.move_to_end(log_id)
            return file
        path = self._directory / file_name(log_id)
        try:
            file = self._disk.open_read(path)
        except (DiskFailedError, TooManyFilesError) as error:
            raise StorageError(str(error), path=path) from error
        try:
            check_file_header(file.read_at(0, FILE_HEADER_BYTES), log_id, path)
        except LogStoreError as error:
            file.close()
            if isinstance(error, DiskFailedError):
                raise StorageError(str(error), path=path) from error
            raise
        self._open[log_id] = file
        if len(self._open) > OPEN_LOGS_MAX:
            self._open.popitem(last=False)[1].close()
        return file

    def forget(self, log_id: int) -> None:
        """Close a log that was removed, so that its space comes back."""
        file = self._open.pop(log_id, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()


def log_ids(disk: Disk, directory: Path) -> list[int]:
    """Ids of the entry logs in the directory, ascending."""
    return numbers_of(disk, directory, SUFFIX)
