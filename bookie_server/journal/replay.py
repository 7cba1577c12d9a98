"""Read the journal's tail at start and say where writing goes on.

Invariant: a torn tail is cut silently, because nothing in it was ever acknowledged; damage to records that had
been synced is reported, because cutting there would turn acknowledged entries into "never had it". The two
are told apart by what follows: a valid record whose group started behind the bad place proves that the bad
place had been synced; so does a NEXT_FILE record or a successor file.

Pitfall: docs/pitfalls.md#damage-taken-for-a-torn-tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import JournalDamagedError, JournalRecordError
from bookie_server.journal.files import Segment, file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    decode_file_header,
    decode_record,
    file_name,
    ledger_of,
)

Handle = Callable[[Record], None]


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
            content = self._content(file_id)
            if offset > len(content):
                self.damage_at(file_id, offset, "the log mark points after its end")
                offset = len(content)
            walk = _Walk(self, file_id, content, offset, sequence)
            walk.run()
            offset, sequence = walk.offset, walk.sequence
            group = GroupEnd(file_id, walk.group_start, offset)
            if walk.successor is None and not self._goes_on(file_id, offset):
                return ReplayEnd(LogMark(file_id, offset, sequence), group, next_file, self.damaged)
            next_file = None if walk.successor is None else group
            file_id, offset = file_id + 1, FILE_HEADER_BYTES

    def _content(self, file_id: int) -> bytes:
        path = self._directory / file_name(file_id)
        if not self._disk.exists(path):
            raise JournalDamagedError(
                f"journal file {path} is missing, but the log mark needs it: restore it; if it is lost, start a new "
                "bookie under another id (docs/operations.md)",
                path=path,
                offset=0,
            )
        content = self._disk.read_file(path)
        header = decode_file_header(content, path)
        if header.file_id != file_id:
            raise JournalDamagedError(
                f"{path} contains journal file {header.file_id}, not {file_id}: restore the right file",
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
        content = self._content(file_id)
        header = decode_file_header(content, file_name(file_id))
        return content.find(header.marker.to_bytes(4, "big"), FILE_HEADER_BYTES) < 0

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

    def __init__(self, replay: _Replay, file_id: int, content: bytes, offset: int, sequence: int) -> None:
        self._replay = replay
        self._file_id = file_id
        self._content = content
        self._view = memoryview(content)
        self._header: FileHeader = decode_file_header(content, file_name(file_id))
        self.offset = offset
        self.sequence = sequence
        self.group_start = offset
        self.successor: int | None = None

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
        self.offset += 32 + len(record.body)
        self.sequence = record.sequence + 1
        self.group_start = record.group_start
        try:
            if record.type is RecordType.NEXT_FILE:
                self.successor = ledger_of(record.body)
            else:
                self._replay.deliver(record)
        except JournalRecordError as error:
            # Never taken for a torn tail: its checksum is right, so it may have been acknowledged.
            self._replay.damage_at(self._file_id, offset, str(error))

    def _skip_damage(self) -> bool:
        """At a bad place: False for a torn tail; else report, and stand at the next valid record."""
        marker = self._header.marker.to_bytes(4, "big")
        found = self._content.find(marker, self.offset + 1)
        while found >= 0:
            record = decode_record(self._header, self._view, found)
            if record is not None and record.sequence > self.sequence and record.group_start > self.offset:
                self._replay.damage_at(self._file_id, self.offset, "records that had been synced follow it")
                self.offset, self.sequence = found, record.sequence
                return True
            found = self._content.find(marker, found + 1)
        return False


def replay(
    disk: Disk, directory: Path, mark: LogMark, handle: Handle, *, accept_damage: bool = False
) -> ReplayEnd:
    """Hand every record from the mark on to `handle`, in order. JournalDamagedError, JournalVersionError."""
    return _Replay(disk, directory, handle, accept_damage).run(mark)


def reopen_at(disk: Disk, directory: Path, end: ReplayEnd) -> Segment:
    """Open the last file for writing after its last record: cut the torn tail and make the rest durable.

    A killed process may have left a NEXT_FILE record that it had not synced. That record must be durable before
    one is written to the next file, so it is written first.
    """
    if end.next_file is not None:
        _write_again(disk, directory, end.next_file).file.close()
    return _write_again(disk, directory, end.last_group)


def _write_again(disk: Disk, directory: Path, group: GroupEnd) -> Segment:
    """Make the file durable up to the group's end, and zeros after it.

    The group is written again before the sync: if its sync had failed, the kernel may hold its pages as clean,
    and a sync alone would then report success for bytes that are not on the disk.
    """
    path = directory / file_name(group.file_id)
    content = disk.read_file(path)
    file = disk.open_write(path)
    torn_bytes = len(content.rstrip(b"\0")) - group.end
    file.write_at(group.start, [content[group.start : group.end], bytes(max(0, torn_bytes))])
    file.sync()
    return Segment(file, decode_file_header(content, path), len(content))
