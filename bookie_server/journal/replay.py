"""Read the journal's tail at start and say where writing goes on.

Invariant: a torn tail is cut silently, because nothing in it was ever acknowledged; damage to records that had
been synced is reported, because cutting there would turn acknowledged entries into "never had it". The two
are told apart by what follows: a valid record whose group started behind the bad place proves that the bad
place had been synced; so does a NEXT_FILE record or a successor file. A record in a sector that the disk cannot read is
damage, whatever follows: a torn write can be read. So is a file that is shorter than it was made: its size was durable
before its first record.

Pitfall: docs/pitfalls.md#damage-taken-for-a-torn-tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bookie_server.disk.disk import Disk
from bookie_server.disk.sectors import overlaps, read_around
from bookie_server.errors import DiskFailedError, JournalDamagedError, JournalRecordError
from bookie_server.journal.files import NEXT_FILE_BYTES, Segment, file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    decode_file_header,
    decode_record,
    file_name,
    ledger_of,
)

Handle = Callable[[Record], None]
_MARKER_BYTES = 4
_OLDER = "it ends there, before the log mark, as an older copy of it does"


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """The last group of records in a file, and where it ends."""

    file_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReplayEnd:
    """Where the journal ends, and whether damage was skipped on the way."""

    position: LogMark
    last_group: GroupEnd
    next_file: GroupEnd | None
    """The NEXT_FILE record of the file before the last, None if the replay did not come by it."""
    damaged: bool
    lost_bytes: int = 0
    """Not 0 if the last record cannot be read, or was cut off: how much of the file it and those after it may fill."""

    @property
    def after_loss(self) -> LogMark:
        """Where writing goes on then: in the next file, so that the loss shows at each start until a checkpoint.

        The sequence is above that of any record in the lost place, which the disk may be able to read later.
        """
        return LogMark(self.position.file_id + 1, FILE_HEADER_BYTES, self.position.sequence + self.lost_bytes)


@dataclass(frozen=True, slots=True)
class _Content:
    """A file from the offset from which it is needed."""

    header: FileHeader
    data: bytes
    """Zeros before that offset, perhaps, and in place of what is lost."""
    lost: list[range]
    """Sectors that the disk cannot read."""
    whole: bool
    """Whether what is before that offset was read, too."""


class _Output(Protocol):
    """Where a walk over a file delivers what it finds."""

    def deliver(self, record: Record) -> None: ...

    def damage_at(self, file_id: int, offset: int, what: str) -> None: ...


class _Replay:
    def __init__(self, disk: Disk, directory: Path, handle: Handle, accept_damage: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._handle = handle
        self._accept_damage = accept_damage
        self.damaged = False

    def run(self, mark: LogMark) -> ReplayEnd:
        file_id, offset, sequence = mark.file_id, mark.offset, mark.sequence
        next_file: GroupEnd | None = None
        while True:
            content = self._content(file_id, offset)
            if offset > len(content.data):
                self.damage_at(file_id, offset, "the log mark points after its end")
                offset = len(content.data)
            walk = _Walk(self, file_id, content, offset, sequence)
            walk.run()
            if file_id == mark.file_id and walk.offset == mark.offset and not walk.lost:
                walk.lost = self._is_older(content, mark)
            offset, sequence = walk.offset, walk.sequence
            group = GroupEnd(file_id, walk.group_start, offset)
            if walk.successor is None and not self._goes_on(file_id, offset):
                end = LogMark(file_id, offset, sequence)
                lost_bytes = max(len(content.data) - offset, RECORD_HEADER_BYTES) if walk.lost else 0
                return ReplayEnd(end, group, next_file, self.damaged, lost_bytes)
            next_file = None if walk.successor is None else group
            file_id, offset = file_id + 1, FILE_HEADER_BYTES

    def _is_older(self, content: _Content, mark: LogMark) -> bool:
        """Whether the file, which has nothing at the mark, ends before it: what was there may have been more."""
        end = _end_before(content, mark.offset)
        if end is None:
            return False
        self.damage_at(mark.file_id, end, _OLDER)
        return True

    def _content(self, file_id: int, offset: int) -> _Content:
        path = self._directory / file_name(file_id)
        if not self._disk.exists(path):
            raise _needed(path, f"journal file {path} is missing")
        try:
            content = _read(self._disk, path, offset)
        except JournalDamagedError as error:
            raise _needed(path, str(error)) from error
        if content.header.file_id != file_id:
            raise JournalDamagedError(
                f"{path} contains journal file {content.header.file_id}, not {file_id}: restore the right file",
                path=path,
                offset=0,
            )
        return content

    def _goes_on(self, file_id: int, offset: int) -> bool:
        """True if the file has a successor with records, though no NEXT_FILE record. Removes an empty successor."""
        later = [found for found in file_ids(self._disk, self._directory) if found > file_id]
        if not later:
            return False
        if later == [file_id + 1] and self._holds_nothing(file_id + 1):
            # The crash came between naming the successor and ending this file with its record.
            self._disk.remove(self._directory / file_name(file_id + 1))
            self._disk.sync_directory(self._directory)
            return False
        self.damage_at(file_id, offset, f"it ends without a NEXT_FILE record, yet file {later[0]} follows")
        return True

    def _holds_nothing(self, file_id: int) -> bool:
        content = self._content(file_id, FILE_HEADER_BYTES)
        if overlaps(content.lost, FILE_HEADER_BYTES, FILE_HEADER_BYTES + _MARKER_BYTES):
            return False
        return content.data.find(content.header.marker.to_bytes(_MARKER_BYTES, "big"), FILE_HEADER_BYTES) < 0

    def deliver(self, record: Record) -> None:
        self._handle(record)

    def damage_at(self, file_id: int, offset: int, what: str) -> None:
        """Refuse, or note that damage was accepted."""
        path = self._directory / file_name(file_id)
        self.damaged = True
        if not self._accept_damage:
            raise JournalDamagedError(
                f"journal file {path} is damaged at offset {offset} ({what}): acknowledged entries may be missing. "
                "To serve what is left, set limbo_on_damage = true in the [storage] table of --config: the bookie then "
                "answers unknown for what it cannot find and accepts no new entries",
                path=path,
                offset=offset,
            )


class _Walk:
    """One pass over the records of one file."""

    def __init__(self, replay: _Output, file_id: int, content: _Content, offset: int, sequence: int) -> None:
        self._replay = replay
        self._file_id = file_id
        self._content = content.data
        self._lost = content.lost
        self._view = memoryview(content.data)
        self._header = content.header
        self.offset = offset
        self.sequence = sequence
        self.group_start = offset
        self.successor: int | None = None
        self.next_file: Record | None = None
        """The record that names the successor."""
        self._resumed_at = 0
        """Behind the last damage: what is before that in the same group cannot be written again."""
        self.lost = False
        """Whether it ended at a record that cannot be read, or was cut off."""

    def run(self) -> None:
        while self.successor is None:
            record = decode_record(self._header, self._view, self.offset)
            if record is not None and record.sequence >= self.sequence:
                if record.sequence > self.sequence:
                    self._replay.damage_at(self._file_id, self.offset, "records before it are missing")
                self._take(record)
            elif not self._skip_damage():
                return

    def _take(self, record: Record) -> None:
        offset = self.offset
        self.offset += RECORD_HEADER_BYTES + len(record.body)
        self.sequence = record.sequence + 1
        self.group_start = max(record.group_start, self._resumed_at)
        try:
            if record.type is RecordType.NEXT_FILE:
                self.successor = ledger_of(record.body)
                self.next_file = record
            else:
                self._replay.deliver(record)
        except JournalRecordError as error:
            # Never taken for a torn tail: its checksum is right, so it may have been acknowledged.
            self._replay.damage_at(self._file_id, offset, str(error))

    def _skip_damage(self) -> bool:
        """At a bad place: False for a torn tail; else report, and stand at the next valid record."""
        marker = self._header.marker.to_bytes(_MARKER_BYTES, "big")
        found = self._content.find(marker, self.offset + 1)
        while found >= 0:
            record = decode_record(self._header, self._view, found)
            if record is not None and record.sequence > self.sequence and record.group_start > self.offset:
                self._replay.damage_at(self._file_id, self.offset, "records that had been synced follow it")
                self.offset, self.sequence = found, record.sequence
                self._resumed_at = found
                return True
            found = self._content.find(marker, found + 1)
        if self._is_lost():
            self._replay.damage_at(self._file_id, self.offset, "it cannot be read")
            self.lost = True
        elif self.offset + max(self._begun_bytes(), NEXT_FILE_BYTES) > len(self._content):
            self._replay.damage_at(
                self._file_id, self.offset, "the file is too short for what was written there"
            )
            self.lost = True
        return False

    def _is_lost(self) -> bool:
        """Whether a record begins here, as far as can be read, and a sector of it cannot be read."""
        start = self.offset
        if overlaps(self._lost, start, start + _MARKER_BYTES):
            return True
        return overlaps(self._lost, start, start + self._begun_bytes())

    def _begun_bytes(self) -> int:
        """Size of the record that begins here, by its header; 0 if none does."""
        start, marker_end = self.offset, self.offset + _MARKER_BYTES
        if self._content[start:marker_end] != self._header.marker.to_bytes(_MARKER_BYTES, "big"):
            return 0
        return RECORD_HEADER_BYTES + int.from_bytes(self._content[marker_end : marker_end + 4], "big")


def _needed(path: Path, what: str) -> JournalDamagedError:
    return JournalDamagedError(
        f"{what}, but the log mark needs it: restore it; if it is lost, start a new bookie under another id "
        "(docs/operations.md)",
        path=path,
        offset=0,
    )


def _end_before(content: _Content, offset: int) -> int | None:
    """Where the last record before `offset` ends if only zeros are between them; None if they meet, or damage does."""
    data, view = content.data, memoryview(content.data)
    marker = content.header.marker.to_bytes(_MARKER_BYTES, "big")
    end, used = FILE_HEADER_BYTES, len(data[:offset].rstrip(b"\0"))
    found = data.rfind(marker, end, used)
    while found >= 0:
        record = decode_record(content.header, view, found)
        if record is not None:
            end = found + RECORD_HEADER_BYTES + len(record.body)
            break
        found = data.rfind(marker, end, found + _MARKER_BYTES - 1)
    return end if content.whole and used <= end < offset else None


def replay(
    disk: Disk, directory: Path, mark: LogMark, handle: Handle, *, accept_damage: bool = False
) -> ReplayEnd:
    """Hand every record from the mark on to `handle`, in order. JournalDamagedError, JournalVersionError."""
    return _Replay(disk, directory, handle, accept_damage).run(mark)


@dataclass(frozen=True, slots=True)
class JournalDamage:
    """A part of a journal file in which records may be lost."""

    path: Path
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"journal file {self.path} is damaged at offset {self.start} ({self.reason})"


@dataclass(frozen=True, slots=True)
class FileRecords:
    """What a file holds, in its order, and how it ends."""

    found: list[Record | JournalDamage]
    """With the NEXT_FILE record."""
    unfinished: JournalDamage | None
    """What comes after the last record, unless that is a NEXT_FILE record: damage if another file has records."""
    sequence: int
    """Of the next record."""
    has_successor: bool
    """Whether it ends with a NEXT_FILE record."""


class _Listing:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[Record | JournalDamage] = []

    def deliver(self, record: Record) -> None:
        self.end_damage(record.offset)
        self.found.append(record)

    def damage_at(self, file_id: int, offset: int, what: str) -> None:
        self.found.append(JournalDamage(self._path, offset, offset, what))

    def end_damage(self, offset: int) -> None:
        """The damage that was found last, if no record follows it yet, ends there."""
        if self.found and isinstance(last := self.found[-1], JournalDamage):
            self.found[-1] = replace(last, end=max(last.start, offset))


def list_records(disk: Disk, path: Path, file_id: int, offset: int, sequence: int | None) -> FileRecords:
    """Every record of a file from `offset` on, as a replay finds them, and the damage between them. Changes nothing.

    `sequence`: of the record at `offset`; None: not known.

    JournalDamagedError: the file's header is damaged. JournalVersionError, DiskFailedError.
    """
    content = _read(disk, path, offset)
    if sequence is None:
        first = decode_record(content.header, memoryview(content.data), offset)
        sequence = 0 if first is None else first.sequence
    listing = _Listing(path)
    walk = _Walk(listing, file_id, content, offset, sequence)
    walk.run()
    older_end = _end_before(content, offset) if walk.offset == offset and not walk.lost else None
    if older_end is not None:
        listing.damage_at(file_id, older_end, _OLDER)
    if walk.next_file is not None:
        listing.deliver(walk.next_file)
    data_end = max(walk.offset, len(content.data.rstrip(b"\0")))
    listing.end_damage(data_end)
    if walk.next_file is not None:
        return FileRecords(listing.found, None, walk.sequence, has_successor=True)
    rest = JournalDamage(
        path, walk.offset, data_end, "it ends without a NEXT_FILE record, yet records follow"
    )
    return FileRecords(listing.found, rest, walk.sequence, has_successor=False)


def reopen_at(disk: Disk, directory: Path, end: ReplayEnd) -> Segment:
    """Open the last file for writing after its last record: cut the torn tail and make the rest durable.

    A killed process may have left a NEXT_FILE record that it had not synced. That record must be durable before
    one is written to the next file, so it is written first.
    """
    if end.next_file is not None:
        _write_again(disk, directory, end.next_file).file.close()
    return _write_again(disk, directory, end.last_group, cut=not end.lost_bytes)


def _write_again(disk: Disk, directory: Path, group: GroupEnd, *, cut: bool = True) -> Segment:
    """Make the file durable up to the group's end, and zeros after it if it is to be `cut` there.

    The group is written again before the sync: if its sync had failed, the kernel may hold its pages as clean,
    and a sync alone would then report success for bytes that are not on the disk.
    """
    path = directory / file_name(group.file_id)
    content = _read(disk, path, group.start)
    if overlaps(content.lost, group.start, group.end):
        raise DiskFailedError(f"cannot read the end of {path} again", path=path, missing=False)
    file = disk.open_write(path)
    # Zeros over lost sectors repair them. A record that is written to a part of one would fail: the rest is read first.
    torn_end = max([len(content.data.rstrip(b"\0")), *(each.stop for each in content.lost)]) if cut else 0
    torn_bytes = torn_end - group.end
    file.write_at(group.start, [content.data[group.start : group.end], bytes(max(0, torn_bytes))])
    file.sync()
    return Segment(file, content.header, len(content.data))


def _read(disk: Disk, path: Path, offset: int) -> _Content:
    """The file from `offset` on, as far as the disk can read it. Its header it must read: every record needs it."""
    file = disk.open_read(path)
    lost: list[range] = []
    whole = True
    try:
        size = file.size()
        try:
            data = file.read_at(0, size)
        except DiskFailedError as error:
            if not error.unreadable:
                raise
            whole = False
            header = file.read_at(0, FILE_HEADER_BYTES)
            rest, lost = read_around(file, min(offset, size), size)
            data = header[: size - len(rest)].ljust(size - len(rest), b"\0") + rest
    finally:
        file.close()
    return _Content(decode_file_header(data, path), data, lost, whole)
