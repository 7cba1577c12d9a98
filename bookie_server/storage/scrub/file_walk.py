"""Walks the files with blocks, header by header, and finds blocks whose entries the index has lost. Blocks.

The other way round than `walk.py`: an index that has lost records answers that an acknowledged entry was never here.

Headers are enough where the index leads to all that they name. Only a block that leaves doubt is read as a whole and
proved, and only an intact one is reported. One that is not intact may have a wrong length, too: the search for the next
intact block begins right after its first byte. Where no header can be, the one before it may have led too far, so its
block is proved first. Whatever else a damaged header says is harmless, since its block proves nothing.

Damage is not reported here. What the index names is found by the other walk; in a damaged stretch that no interval
covers, the index may have lost records, too, and this bookie cannot know of which entries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFailedError, JournalDamagedError, StorageError
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block, BlockHeader
from bookie_server.storage.entry_logs.headers import EntryLogHeaders
from bookie_server.storage.index import Index
from bookie_server.storage.scrub.block_files import BlockFile
from bookie_server.storage.scrub.block_ids import BlockIds
from bookie_server.storage.scrub.coverage import Place, all_found
from bookie_server.storage.scrub.lost_entries import is_deleted, is_unlisted, lost_ids, may_be_lost
from bookie_server.storage.scrub.windowed_file import WindowedFile
from bookie_server.storage.segments.headers import OtherRecord, SegmentHeaders
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import LogStoreError

HEADERS_MAX = 1024
"""Of one step: each is looked up in the index."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where a walk goes on: in the first file with this number or a higher one, at this offset if it is this one."""

    log_id: int = 0
    offset: int = 0


FIRST_FILE = FilePosition()


@dataclass(frozen=True, slots=True)
class UnindexedBlock:
    """An intact block that the index has lost something of. `ids`: of these entries, ascending."""

    ledger_id: int
    ids: tuple[int, ...]
    log_id: int
    offset: int
    size: int
    is_unlisted: bool = False
    """The index leads to the entries, and lacks only the record that the file has blocks of this ledger."""

    def __str__(self) -> str:
        if self.is_unlisted:
            return f"that file {self.log_id:x} has entries of ledger {self.ledger_id}"
        return f"entries {self.ids[0]} to {self.ids[-1]} of ledger {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class FileStep:
    """What one step has found. `next`: None at the end of the last file."""

    bytes_read: int
    unindexed: tuple[UnindexedBlock, ...]
    next: FilePosition | None
    is_sure: bool
    """False: a file could not be opened, or the index not be read, so there may be more that was lost."""


class Headers(Protocol):
    """One file with blocks, as `EntryLogHeaders` and `SegmentHeaders` read it."""

    begin: int
    end: int

    def at(self, offset: int) -> BlockHeader | OtherRecord | None: ...

    def block_at(self, offset: int) -> Block | None: ...

    def next_block(self, offset: int, stop: int) -> int: ...


@dataclass(slots=True)
class _Progress:
    """Of one step."""

    bytes_max: int
    bytes_read: int = 0
    headers: int = 0
    unindexed: list[UnindexedBlock] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    """Ledgers."""
    listed: set[tuple[int, int]] = field(default_factory=set)
    """Files, each with a ledger of which the index knows that it has blocks there."""
    is_sure: bool = True

    @property
    def is_over(self) -> bool:
        return self.headers > 0 and (self.bytes_read >= self.bytes_max or self.headers >= HEADERS_MAX)


class FileWalk:
    """Keeps no file open between two steps, so that the space of removed ones comes back."""

    def __init__(self, disk: Disk, index: Index, paths: StoragePaths) -> None:
        self._disk = disk
        self._index = index
        self._paths = paths
        self._logs = EntryLogReader(disk, paths)
        self._blocks = BlockIds(self._logs)

    def step(self, files: Sequence[BlockFile], start: FilePosition, bytes_max: int) -> FileStep:
        """Check blocks from `start` on, at least one, and read about `bytes_max` bytes.

        `files`: ascending by number. One that is missing by now, or cannot be read, is passed over.
        """
        progress = _Progress(bytes_max)
        try:
            for file in files[bisect_left(files, start.log_id, key=lambda each: each.log_id) :]:
                offset = start.offset if file.log_id == start.log_id else 0
                stopped = self._walk(file, offset, progress)
                if stopped is not None:
                    return _step(progress, FilePosition(file.log_id, stopped))
        finally:
            self._logs.close()
        return _step(progress, None)

    def _walk(self, file: BlockFile, offset: int, progress: _Progress) -> int | None:
        """Where the step ends in this file, None if it does not."""
        path = path_of(self._disk, self._paths, file.log_id)
        try:
            opened = WindowedFile(self._disk.open_read(path))
        except DiskFailedError as error:
            progress.is_sure &= error.missing
            return None
        except LogStoreError:
            progress.is_sure = False
            return None
        read_before = progress.bytes_read
        others_before = self._blocks.bytes_read
        with closing(opened):
            try:
                headers = _headers(opened, file)
            except LogStoreError as error:
                # A file of a newer version may have anything. Of one without a header of its own nothing can be read.
                progress.is_sure &= isinstance(error, JournalDamagedError)
                return None
            offset, previous = max(offset, headers.begin), -1
            while offset < headers.end:
                found = headers.at(offset)
                # Not before it is known where a header has led: the next step does not know where it was.
                if progress.is_over and (found is not None or previous < 0):
                    return offset
                left = max(1, progress.bytes_max - progress.bytes_read)
                if found is None:
                    offset, previous = _after_damage(headers, offset, previous, left), -1
                elif self._is_sound(headers, found, (file.log_id, offset), progress):
                    offset, previous = offset + found.size, offset
                else:
                    offset, previous = headers.next_block(offset + 1, offset + 1 + left), -1
                progress.headers += 1
                others = self._blocks.bytes_read - others_before
                progress.bytes_read = read_before + opened.bytes_read + others
        return None

    def _is_sound(
        self, headers: Headers, header: BlockHeader | OtherRecord, place: Place, progress: _Progress
    ) -> bool:
        """False if the block was read and is not intact. Notes it if entries of it are lost."""
        try:
            if isinstance(header, OtherRecord) or self._is_deleted(header.ledger_id, progress):
                return True
            unlisted = self._is_unlisted(header, place[0], progress)
            if not (unlisted or self._leaves_doubt(header, place)):
                return True
            log_id, offset = place
            block = headers.block_at(offset)
            if block is None:
                return False
            if ids := lost_ids(self._index, block, place, self._blocks):
                lost = UnindexedBlock(block.ledger_id, tuple(ids), log_id, offset, block.size)
                progress.unindexed.append(lost)
            if unlisted:
                lost = UnindexedBlock(block.ledger_id, tuple(block.ids), log_id, offset, block.size, True)
                progress.unindexed.append(lost)
        except StorageError:
            progress.is_sure = False  # the index cannot be read there: doubt is not loss
        return True

    def _is_deleted(self, ledger_id: int, progress: _Progress) -> bool:
        if ledger_id not in progress.deleted and is_deleted(self._index, ledger_id):
            progress.deleted.add(ledger_id)
        return ledger_id in progress.deleted

    def _is_unlisted(self, header: BlockHeader, log_id: int, progress: _Progress) -> bool:
        listed = log_id, header.ledger_id
        if listed not in progress.listed and self._index.bytes_in_log(*listed):
            progress.listed.add(listed)
        return listed not in progress.listed and is_unlisted(
            self._index, header.ledger_id, header.first, header.last, log_id
        )

    def _leaves_doubt(self, header: BlockHeader, place: Place) -> bool:
        intervals = self._index.overlapping(header.ledger_id, header.first, header.last)
        if all_found(header.first, header.last, place, intervals):
            return False
        return may_be_lost(self._index, header.ledger_id, header.first)


def _headers(file: WindowedFile, of: BlockFile) -> EntryLogHeaders | SegmentHeaders:
    size = file.size()
    end = size if of.end is None else min(of.end, size)
    if is_segment(of.log_id):
        return SegmentHeaders(file, of.log_id, end)
    return EntryLogHeaders(file, of.log_id, end)


def _after_damage(headers: Headers, offset: int, previous: int, bytes_max: int) -> int:
    """Where the next intact block begins, or about `bytes_max` bytes further on if there is none before that.

    No header can be at `offset`, to which the one at `previous` has led; -1 if none has.
    """
    if previous >= 0:
        block = headers.block_at(previous)
        offset = previous + (1 if block is None else block.size)
    return headers.next_block(offset, offset + bytes_max)


def _step(progress: _Progress, position: FilePosition | None) -> FileStep:
    return FileStep(progress.bytes_read, tuple(progress.unindexed), position, progress.is_sure)
