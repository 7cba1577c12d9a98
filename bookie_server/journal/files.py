"""The journal's files on disk: preallocated segments, rolled one into the next. Runs in the journal's worker.

Law, in this order when a file is full: the next file is made under a temporary name, preallocated, its
header written and synced, renamed, the directory synced; then the full file gets its NEXT_FILE record and is
synced; only then are records written to the next file. So a file that ends with NEXT_FILE has a successor, and a
file whose successor holds records ends with it: replay can tell a missing file from the end.

Pitfall: docs/pitfalls.md#name-or-mark-not-durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.disk.numbered_files import numbers_of
from bookie_server.errors import DiskFailedError, DiskFullError, TooManyFilesError
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    SUFFIX,
    VERSION,
    VERSION_WITHOUT_BLOCKS,
    FileHeader,
    RecordType,
    encode_file_header,
    encode_record,
    file_name,
    ledger_body,
)
from ledger.errors import LogStoreError

NEXT_FILE = "next.tmp"
"""The next file while it is made, before it has its name."""
SPARE_FILE = "spare.tmp"
"""A file made in advance, until it becomes the next one."""
NEXT_FILE_BYTES = RECORD_HEADER_BYTES + 8
"""Free after the last record of each file that has no NEXT_FILE record yet."""

FIRST_POSITION = LogMark(1, FILE_HEADER_BYTES, 1)
"""Of a new journal."""

Body = tuple[RecordType, bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is."""

    file_id: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """An open journal file and how many bytes may be written to it without asking for space."""

    file: DiskFile
    header: FileHeader
    size: int


class JournalFiles:
    """Appends records. One thread calls `write`, another may call `prepare_spare` concurrently."""

    def __init__(
        self, disk: Disk, directory: Path, segment_bytes: int, new_salt: Callable[[], int], position: LogMark
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._new_salt = new_salt
        self._version = VERSION_WITHOUT_BLOCKS
        self._offset = position.offset
        self._sequence = position.sequence
        self._spare: Segment | None = None
        self._segment: Segment
        self.make_room: Callable[[], bool] = lambda: False
        """Asked once when a file cannot be made on a full disk; True if there is room now."""

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: Path,
        segment_bytes: int,
        new_salt: Callable[[], int],
        position: LogMark = FIRST_POSITION,
    ) -> JournalFiles:
        """The first file of a new journal, or one after a file that cannot be continued."""
        files = cls(disk, directory, segment_bytes, new_salt, position)
        files._segment = files._named(files._made(NEXT_FILE, position.file_id, 0))
        return files

    @classmethod
    def resume(
        cls,
        disk: Disk,
        directory: Path,
        segment_bytes: int,
        new_salt: Callable[[], int],
        segment: Segment,
        position: LogMark,
    ) -> JournalFiles:
        """Continue in `segment` at `position`; everything after it must be zero and durable."""
        files = cls(disk, directory, segment_bytes, new_salt, position)
        files._segment = segment
        return files

    @property
    def position(self) -> LogMark:
        """Where the next record goes."""
        return LogMark(self._segment.header.file_id, self._offset, self._sequence)

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    def allow_blocks(self) -> None:
        """Files made from now on may have BLOCK records; before this call none may be written."""
        self._version = VERSION

    # ---- writing

    def write(
        self, bodies: Sequence[Body], places: list[Place] | None = None
    ) -> tuple[int, DiskFullError | None]:
        """Write the records and sync. How many are durable, and why the rest was not even begun.

        Adds to `places`, if given, where each durable record is. Any other error means that nothing is known about
        these records.
        """
        done = 0
        while done < len(bodies):
            count = self._fitting(bodies, done)
            if count:
                found = self._write_group(bodies[done : done + count])
                if places is not None:
                    places += found
                done += count
                continue
            try:
                self._roll(RECORD_HEADER_BYTES + len(bodies[done][1]))
            except DiskFullError as full:
                return done, full
        return done, None

    def _fitting(self, bodies: Sequence[Body], first: int) -> int:
        room = self._segment.size - self._offset - NEXT_FILE_BYTES
        count = 0
        for kind, body in bodies[first:]:
            if kind is RecordType.BLOCK and self._segment.header.version < VERSION:
                break
            room -= RECORD_HEADER_BYTES + len(body)
            if room < 0:
                break
            count += 1
        return count

    def _write_group(self, bodies: Sequence[Body]) -> list[Place]:
        header, start, sequence = self._segment.header, self._offset, self._sequence
        parts: list[bytes] = []
        places: list[Place] = []
        offset = start
        for kind, body in bodies:
            parts += encode_record(header, kind, sequence, start, body, offset)
            places.append(Place(header.file_id, offset, RECORD_HEADER_BYTES + len(body)))
            offset += places[-1].size
            sequence += 1
        try:
            end = self._segment.file.write_uncached(start, parts)
            # Everything up to here is in the file before the sync starts: exactly this may be acknowledged.
            self._segment.file.sync()
        except DiskFullError as full:
            # Preallocated space should exclude this; where it does not, the record may be there in part.
            raise DiskFailedError(str(full), path=self._segment.file.path, missing=False) from full
        self._offset, self._sequence = end, sequence
        return places

    # ---- rolling

    def _roll(self, record_bytes: int) -> None:
        file_id = self._segment.header.file_id + 1
        needed = FILE_HEADER_BYTES + record_bytes + NEXT_FILE_BYTES
        successor = self._successor(file_id, needed)
        self._write_group([(RecordType.NEXT_FILE, ledger_body(file_id))])
        self._segment.file.close()
        self._segment, self._offset = successor, FILE_HEADER_BYTES

    def _successor(self, file_id: int, bytes_needed: int) -> Segment:
        spare = self._spare
        if spare is not None:
            try:
                if spare.header.file_id == file_id and spare.size >= bytes_needed:
                    return self._named(spare)
                spare.file.close()
                self._disk.remove(spare.file.path)
            finally:
                # Not before: `prepare_spare`, in its thread, would begin the next one in the very file of this one.
                self._spare = None
        return self._named(self._made_with_room(file_id, bytes_needed))

    def _made_with_room(self, file_id: int, bytes_needed: int) -> Segment:
        try:
            return self._made(NEXT_FILE, file_id, bytes_needed)
        except TooManyFilesError:
            raise  # space is not what is missing
        except DiskFullError:
            if not self.make_room():
                raise
            return self._made(NEXT_FILE, file_id, bytes_needed)

    def prepare_spare(self) -> None:
        """Make the next file in advance, outside the journal's worker. DiskFullError."""
        if self._spare is None:
            # If the journal rolls in the meantime, this file has the wrong id and is discarded when it is taken.
            self._spare = self._made(SPARE_FILE, self._segment.header.file_id + 1, 0)

    def _made(self, name: str, file_id: int, bytes_needed: int) -> Segment:
        header = FileHeader(file_id, self._new_salt(), self._version)
        size = max(self._segment_bytes, bytes_needed)
        file = self._disk.create(self._directory / name)
        try:
            file.preallocate(0, size)
            file.write_at(0, [encode_file_header(header)])
            file.sync()
        except DiskFullError:
            file.close()
            self._disk.remove(file.path)
            raise
        return Segment(file, header, size)

    def _named(self, segment: Segment) -> Segment:
        name = self._directory / file_name(segment.header.file_id)
        try:
            self._disk.rename_durably(segment.file.path, name)
        except LogStoreError:
            # Under either name it holds no record, and the file before it has no NEXT_FILE record: it is replaced.
            segment.file.close()
            raise
        segment.file.path = name
        return segment

    def close(self) -> None:
        if self._spare is not None:
            self._spare.file.close()
            self._spare = None
        self._segment.file.close()


def remove_before(disk: Disk, directory: Path, mark: LogMark, is_needed: Callable[[int], bool]) -> list[int]:
    """Delete the journal files that only hold records before the (already durable) mark; which they were.

    Kept are those of which `is_needed` says that the index points into them.
    """
    removed = [each for each in file_ids(disk, directory) if each < mark.file_id and not is_needed(each)]
    for file_id in removed:
        disk.remove_large(directory / file_name(file_id))()
    return removed


def file_ids(disk: Disk, directory: Path) -> list[int]:
    """Ids of the journal files in the directory, ascending."""
    return numbers_of(disk, directory, SUFFIX)
