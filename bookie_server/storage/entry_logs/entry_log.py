"""Entry logs on disk: blocks are appended by one worker and read by others, from journal files, too.

Invariant: bytes after the end that the index knows are garbage of a crash and are overwritten. A reader asks for
exactly the bytes an index record names and believes them only when their CRC, place and ledger agree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.disk.sectors import read_around
from bookie_server.disk.uncached_pages import PAGE_BYTES
from bookie_server.errors import (
    BlockDamagedError,
    DiskFailedError,
    DiskFullError,
    IndexVersionError,
    JournalDamagedError,
    JournalVersionError,
    LedgerDirectoryFailedError,
    StorageError,
    TooManyFilesError,
)
from bookie_server.journal import block as segment_block
from bookie_server.journal import record as journal
from bookie_server.storage.entry_logs.directories import LogDirectories
from bookie_server.storage.entry_logs.format import (
    FILE_HEADER_BYTES,
    Block,
    decode_block,
    encode_file_header,
    file_name,
    require_known_version,
)
from bookie_server.storage.index import LOG_FULL, Interval, LogEnd
from bookie_server.storage.segments.log_files import all_log_ids, path_of
from bookie_server.storage.segments.places import is_segment, segment_header
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import LogStoreError

OPEN_LOGS_MAX = 32
"""Of one reading worker."""


class EntryLogWriter:
    """The log that is written to, in any of the ledger directories. Lives in the storage worker."""

    def __init__(
        self,
        disk: Disk,
        paths: StoragePaths,
        directories: LogDirectories,
        log_bytes_max: int,
        end: LogEnd | None,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._directories = directories
        self._log_bytes_max = log_bytes_max
        self._file: DiskFile | None = None
        self._directory = paths.entry_logs
        """That of the log, once it was begun or opened."""
        self.end = end or LogEnd(0, log_bytes_max)
        # Invariant: no file gets the id of one that is there. A crash or a full disk may leave a log after the current
        # one that only the ledger states know, and an index that is made from these leads into it.
        self._last_id = max([self.end.log_id, *all_log_ids(disk, paths)])
        """The highest id that an entry log ever had: readers of this process may hold places in it, and a power cut may
        bring it back in another directory, so no other file gets it."""
        self._closed_id = -1

    def new_log_id(self) -> int:
        """The id of an entry log that compaction writes."""
        self._last_id += 1
        return self._last_id

    def end_log(self) -> None:
        """Append nothing more to the current log: the next block goes into a new one."""
        self._closed_id = self.end.log_id

    def go_on_in(self, end: LogEnd) -> None:
        """Append to this log, which is complete and durable up to its end, from now on."""
        self.close()
        self.end = end

    def begin(self, full: Collection[Path] = ()) -> LogEnd:
        """Where the next block goes; starts a new log when the current one is full, was removed, cannot be opened, has
        a bad sector where it would matter, or is in a directory that has proved `full` or has failed.

        DiskFullError; LedgerDirectoryFailedError, DiskFailedError: as `LogDirectories.may_fail`.
        """
        if self._file is None and not self._is_ended:
            self._file = self._reopened()
        if self._file is None or self._is_ended or self._is_elsewhere(full) or self._was_removed():
            self._roll(full)
        return self.end

    def _was_removed(self) -> bool:
        """Whether no start would find what is written to the open file. One that was removed takes writes and syncs."""
        with self._directories.may_fail(self._directory):
            return not self._disk.exists(self._directory / file_name(self.end.log_id))

    def _is_elsewhere(self, full: Collection[Path]) -> bool:
        """Whether the log's directory takes no more. That it has failed, another worker may have noticed."""
        return self._directory in full or self._directories.has_failed(self._directory)

    @property
    def _is_ended(self) -> bool:
        # Whatever the setting allows: LOG_FULL is no place to write to.
        bytes_max = min(self._log_bytes_max, LOG_FULL)
        return self.end.offset >= bytes_max or self.end.log_id == self._closed_id

    def _reopened(self) -> DiskFile | None:
        path = path_of(self._disk, self._paths, self.end.log_id)
        try:
            if self._directories.has_failed(path.parent) or not self._disk.exists(path):
                return None
            file, takes_more = self._disk.open_write(path), False
        except DiskFailedError:
            return None  # of one file, as damage in it is: its blocks are synced, and reads report them
        try:
            takes_more = self._takes_more(file)
        finally:
            if not takes_more:
                file.close()
        self._directory = path.parent
        return file if takes_more else None

    def _takes_more(self, file: DiskFile) -> bool:
        """Whether its header and the page in which it ends can be read: the system reads a page before it writes a part
        of it, so that every append would fail.
        """
        end = self.end.offset
        page = end - end % PAGE_BYTES
        _, lost_header = read_around(file, 0, FILE_HEADER_BYTES)
        _, lost = read_around(file, page, end)
        return not lost_header and not lost

    def _roll(self, full: Collection[Path]) -> None:
        self.close()
        log_id = self.new_log_id()
        self._directory = directory = self._directories.for_new_log(full)
        path = directory / file_name(log_id)
        with self._directories.may_fail(directory):
            file = self._disk.create(path)
            try:
                file.write_at(0, [encode_file_header(log_id)])
                file.sync()
                self._disk.sync_directory(directory)
            except DiskFullError:
                file.close()
                self._disk.remove(path)
                raise
            except LogStoreError:
                file.close()
                raise
        self._file, self.end = file, LogEnd(log_id, FILE_HEADER_BYTES)

    def leave(self, log_id: int) -> None:
        """Begin a new log with the next block if this one, which is damaged, is the current one."""
        if log_id == self.end.log_id:
            self.end_log()

    def append(self, parts: Sequence[bytes]) -> None:
        """Write whole blocks, in pieces, at the end.

        DiskFullError before a byte is changed, if there is no room. LedgerDirectoryFailedError, DiskFailedError.
        """
        assert self._file is not None, "begin() comes first"
        with self._directories.may_fail(self._directory):
            self._file.preallocate(self.end.offset, sum(map(len, parts)))
            self.end = LogEnd(self.end.log_id, self._file.write_at(self.end.offset, parts))

    def sync(self) -> None:
        """What was appended is durable. LedgerDirectoryFailedError, DiskFailedError."""
        if self._file is not None:
            with self._directories.may_fail(self._directory):
                self._file.sync()

    def back_to(self, end: LogEnd) -> Path:
        """After a full disk: give up what was appended after `end`, and its space; the directory that was full.

        What a crash leaves of it will be overwritten, or is in a log that no index names. DiskFailedError.
        """
        try:
            with self._directories.may_fail(self._directory):
                self._take_back(end)
        except LedgerDirectoryFailedError:
            self.leave_failed(end)
        self.end = end
        return self._directory

    def _take_back(self, end: LogEnd) -> None:
        if end.log_id != self.end.log_id:
            self.close()
            self._disk.remove(self._directory / file_name(self.end.log_id))
        elif self._file is not None:
            self._file.truncate(end.offset)

    def leave_failed(self, end: LogEnd) -> None:
        """After a LedgerDirectoryFailedError: nothing was appended after `end`, and what is next begins a new log."""
        self.close()
        self.end = end
        self.end_log()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(LedgerDirectoryFailedError), self._directories.may_fail(self._directory):
                file.close()


class _Decode(Protocol):
    def __call__(self, data: memoryview, offset: int, ledger_id: int, path: object, *, apart: bool) -> Block:
        """StorageError."""


class _Log(NamedTuple):
    """An open file with blocks."""

    file: DiskFile
    decode: _Decode


class EntryLogReader:
    """Reads blocks, of entry logs and of journal files. Each reading worker has its own, because open files are not
    shared between threads."""

    def __init__(self, disk: Disk, paths: StoragePaths) -> None:
        self._disk = disk
        self._paths = paths
        self._open: OrderedDict[int, _Log] = OrderedDict()

    def read(self, ledger_id: int, intervals: Sequence[Interval]) -> list[Block]:
        """The blocks of intervals that follow each other in one log, with one disk read.

        Raises:
            BlockDamagedError: one of them is not there, or damaged.
            StorageError: nothing is known, because the file cannot be opened now.
        """
        log_id, start = intervals[0].log_id, intervals[0].offset
        file, decode = self._log(log_id)
        size = intervals[-1].offset + intervals[-1].block_bytes - start
        try:
            data = memoryview(file.read_at(start, size))
        except DiskFailedError as error:
            raise BlockDamagedError(str(error), path=file.path, ledger_id=ledger_id) from error
        # Whatever keeps one of several blocks keeps only its bytes. The check has copied them, so that costs no copy.
        apart = len(intervals) > 1
        blocks = []
        for interval in intervals:
            at = interval.offset - start
            part = data[at : at + interval.block_bytes]
            blocks.append(decode(part, interval.offset, ledger_id, file.path, apart=apart))
        return blocks

    def read_if_intact(self, ledger_id: int, interval: Interval) -> Block | None:
        """The block of one interval; None if it is not there, or damaged. StorageError: nothing is known."""
        try:
            [block] = self.read(ledger_id, [interval])
        except BlockDamagedError:
            return None
        return block

    def _log(self, log_id: int) -> _Log:
        log = self._open.get(log_id)
        if log is not None:
            self._open.move_to_end(log_id)
            return log
        path = path_of(self._disk, self._paths, log_id)
        try:
            file = self._disk.open_read(path)
        except (DiskFailedError, TooManyFilesError) as error:
            raise _unreadable(error, path) from error
        try:
            log = _Log(file, _decoder(file, log_id))
        except LogStoreError as error:
            file.close()
            if isinstance(error, (DiskFailedError, JournalDamagedError, JournalVersionError)):
                raise _unreadable(error, path) from error
            raise
        self._open[log_id] = log
        if len(self._open) > OPEN_LOGS_MAX:
            self._open.popitem(last=False)[1].file.close()
        return log

    def forget(self, log_id: int) -> None:
        """Close a log that was removed, so that its space comes back."""
        log = self._open.pop(log_id, None)
        if log is not None:
            log.file.close()

    def close(self) -> None:
        for log in self._open.values():
            log.file.close()
        self._open.clear()


def _unreadable(error: LogStoreError, path: Path) -> StorageError:
    """BlockDamagedError if the file is the reason, and not that it cannot be opened now or by this version."""
    is_damage = isinstance(error, (DiskFailedError, JournalDamagedError))
    return (BlockDamagedError if is_damage else StorageError)(str(error), path=path)


def _decoder(file: DiskFile, log_id: int) -> _Decode:
    """How blocks of the file are decoded, if its header is good. Any error of the tree."""
    if not is_segment(log_id):
        _require_known_version(file)
        return partial(_entry_log_block, log_id)
    header = segment_header(file.read_at(0, journal.FILE_HEADER_BYTES), log_id, file.path)
    return partial(segment_block.read_block, header)


def _require_known_version(file: DiskFile) -> None:
    """StorageError if a newer version wrote the entry log.

    A header that is damaged harms no block: the checksum of each covers the id of the log.
    """
    try:
        require_known_version(file.read_at(0, FILE_HEADER_BYTES), file.path)
    except DiskFailedError:
        pass
    except IndexVersionError as error:
        raise StorageError(str(error), path=file.path) from error


def _entry_log_block(
    log_id: int, data: memoryview, offset: int, ledger_id: int, path: object, *, apart: bool
) -> Block:
    return decode_block(data, log_id, offset, ledger_id, path, apart=apart)
