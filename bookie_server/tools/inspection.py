"""Offline commands of `bookie`: the files of a stopped bookie as rows to print. Blocks.

The journal is read from its first record to its last good one, past damage, which is shown. A ledger is read from the
index and the entry logs, together with the records that only the journal's tail has, as a start would replay them; if
that tail is damaged, what was asked for may lack something. Changes no journal and no entry log.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bookie_server.cookie import read_cookie
from bookie_server.disk.disk import Disk
from bookie_server.disk.disk_limits import DirectoryUsage, total_space
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import JournalDamagedError
from bookie_server.journal.block import entries_of
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    Record,
    RecordType,
    decode_explicit_lac,
    file_name,
    ledger_of,
)
from bookie_server.journal.replay import FileRecords, JournalDamage, list_records
from bookie_server.net.port import kept_port
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.index import Index
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.stopped_bookie import exclusively, opened_index
from ledger.errors import LedgerNotFoundError
from ledger.printing import Row
from ledger.wire.entry import ENTRY_HEADER_BYTES, ENTRY_IDS, decode_header

FIRST_MARK = LogMark(0, 0, 0)

# ---- rows to print


def journal_rows(config: StorageConfig, ledger_id: int | None = None) -> Iterator[Row]:
    """One row for each record of the journal, or for each that is about this ledger; and one for each damaged part."""
    disk = SystemDisk()
    with exclusively(disk, config):
        for found in journal_contents(disk, config.journal_directory):
            if isinstance(found, JournalDamage):
                yield {
                    "file": found.path.name,
                    "offset": found.start,
                    "damaged_bytes": found.end - found.start,
                }
                continue
            if ledger_id is not None and not _is_of(found.record, ledger_id):
                continue
            yield {
                "file": found.path.name,
                "offset": found.offset,
                "sequence": found.record.sequence,
                "type": found.record.type.name.lower(),
                "detail": _detail(found),
            }


def ledger_rows(config: StorageConfig, ledger_id: int, first: int, last: int) -> Iterator[Row]:
    """One row for each entry of the ledger.

    Raises:
        LedgerNotFoundError: the bookie has no such ledger, or has deleted it.
        JournalDamagedError: after the rows, if the ledger may have more entries in a damaged part of the journal.
    """
    disk = SystemDisk()
    with exclusively(disk, config):
        for entry_id, entry in ledger_entries(disk, config, ledger_id, first, last):
            lac, length, rest = _parts(entry)
            yield {
                "ledger": ledger_id,
                "entry": entry_id,
                "lac": lac,
                "length": length,
                "bytes": len(entry),
                "after_header": rest.hex(),
            }


def _parts(entry: bytes) -> tuple[int, int | None, bytes]:
    """LAC, length and what follows. An entry that ends before its length field has none (wire/entry.py)."""
    if len(entry) < ENTRY_HEADER_BYTES:
        return ENTRY_IDS.unpack_from(entry)[2], None, entry[ENTRY_IDS.size :]
    header = decode_header(entry)
    return header.lac, header.length, entry[ENTRY_HEADER_BYTES:]


def directory_facts(config: StorageConfig) -> tuple[Row, list[JournalDamage]]:
    """Whose directories these are, and what they hold; and the damage that may hide ledgers."""
    disk = SystemDisk()
    with exclusively(disk, config):
        return _facts(disk, config)


def require_whole(damage: list[JournalDamage]) -> None:
    """JournalDamagedError if there is damage that may hide ledgers."""
    if damage:
        raise _incomplete(damage, "ledgers may be missing here, or deleted")


def _incomplete(damage: list[JournalDamage], what: str) -> JournalDamagedError:
    first = damage[0]
    return JournalDamagedError(
        f"{first}: {what}; `bookie read-journal` shows all that can be read",
        path=first.path,
        offset=first.start,
    )


def _facts(disk: Disk, config: StorageConfig) -> tuple[Row, list[JournalDamage]]:
    cookie = read_cookie(disk, config.ledger_directory)
    total, free = space_of(disk, config.ledger_directories)
    held = _held(disk, config)
    facts: Row = {
        "bookie": None if cookie is None else cookie.bookie_id,
        "cluster": None if cookie is None else cookie.instance_id,
        "journal_dir": str(config.journal_directory),
        "ledger_dir": ", ".join(map(str, config.ledger_directories)),
        "kept_port": kept_port(disk, config.ledger_directory),
        "in_limbo": held.in_limbo,
        "total_bytes": total,
        "free_bytes": free,
        "ledger_count": len(held.ledger_ids),
        "ledgers": held.ledger_ids,
    }
    return facts, held.damage


def space_of(disk: Disk, directories: Iterable[Path]) -> tuple[int, int]:
    """Size and free space of the file systems under the directories, each counted once, in bytes."""
    return total_space(DirectoryUsage.measure(disk, each) for each in directories)


def _detail(found: FoundRecord) -> str:
    body = found.record.body
    match found.record.type:
        case RecordType.ADDS | RecordType.BLOCK:
            return _adds_detail(found)
        case RecordType.EXPLICIT_LAC:
            ledger_id, lac, _ = decode_explicit_lac(body)
            return f"ledger {ledger_id} lac {lac}"
        case RecordType.NEXT_FILE:
            return f"goes on in file {ledger_of(body)}"
        case RecordType.LEDGER_KEY | RecordType.FENCE | RecordType.TOMBSTONE:
            return f"ledger {ledger_of(body)}"


def _adds_detail(found: FoundRecord) -> str:
    """Ranges of entries, ledger by ledger, as they were sent."""
    parts: list[str] = []
    run: tuple[int, int, int] | None = None
    for ledger_id, entry_id, _, _ in entries_of(found.record):
        if run is not None and (ledger_id, entry_id) == (run[0], run[2] + 1):
            run = (run[0], run[1], entry_id)
            continue
        if run is not None:
            parts.append(_range(run))
        run = (ledger_id, entry_id, entry_id)
    if run is not None:
        parts.append(_range(run))
    return ", ".join(parts)


def _range(run: tuple[int, int, int]) -> str:
    ledger_id, first, last = run
    return (
        f"ledger {ledger_id} entry {first}" if first == last else f"ledger {ledger_id} entries {first}-{last}"
    )


# ---- the files


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """One journal record and where it lies."""

    path: Path
    offset: int
    record: Record

    @property
    def next_offset(self) -> int:
        return self.offset + RECORD_HEADER_BYTES + len(self.record.body)


def journal_records(disk: Disk, directory: Path, mark: LogMark = FIRST_MARK) -> Iterator[FoundRecord]:
    """Every good record from the mark on."""
    return (each for each in journal_contents(disk, directory, mark) if isinstance(each, FoundRecord))


def journal_contents(
    disk: Disk, directory: Path, mark: LogMark = FIRST_MARK
) -> Iterator[FoundRecord | JournalDamage]:
    """Every good record from the mark on, and the damage between them.

    From the first mark it is that of each file there is: a compaction removes files from between others.
    """
    path = directory / file_name(mark.file_id)
    before: FileRecords | None = None
    missing = path if mark != FIRST_MARK else None
    for file_id in (each for each in file_ids(disk, directory) if each >= mark.file_id):
        path = directory / file_name(file_id)
        if missing not in (None, path):
            yield JournalDamage(missing, 0, 0, "it is missing")
            before = None
        records = _records_of(disk, path, file_id, mark, before)
        if before is not None and before.unfinished is not None and records.found:
            yield before.unfinished
        for each in records.found:
            yield FoundRecord(path, each.offset, each) if isinstance(each, Record) else each
        before = records
        missing = directory / file_name(file_id + 1) if mark != FIRST_MARK else None
    if missing is not None and (before is None or before.has_successor):
        yield JournalDamage(missing, 0, 0, "it is missing")


def _records_of(
    disk: Disk, path: Path, file_id: int, mark: LogMark, before: FileRecords | None
) -> FileRecords:
    offset, sequence = FILE_HEADER_BYTES, None
    if file_id == mark.file_id:
        offset, sequence = mark.offset, mark.sequence
    elif mark != FIRST_MARK and before is not None and before.has_successor:
        sequence = before.sequence
    try:
        return list_records(disk, path, file_id, offset, sequence)
    except JournalDamagedError:
        damage = JournalDamage(path, 0, len(disk.read_file(path)), "its header is damaged")
        return FileRecords([damage], unfinished=None, sequence=0, has_successor=False)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a stopped bookie has."""

    ledger_ids: list[int]
    """Not deleted, ascending."""
    damage: list[JournalDamage]
    """That may hide ledgers, or their deletion."""
    in_limbo: bool
    """Whether the next start is in limbo, as far as is noted."""


def _held(disk: Disk, config: StorageConfig) -> _Held:
    with _opened(disk, config) as opened:
        found = set(opened.index.ledger_ids())
        for each in opened.tail:
            if each.type is RecordType.TOMBSTONE:
                found.discard(ledger_of(each.body))
            elif each.type is RecordType.LEDGER_KEY:
                found.add(ledger_of(each.body))
        return _Held(sorted(found), opened.damage, opened.index.limbo_since() is not None)


def ledger_entries(
    disk: Disk, config: StorageConfig, ledger_id: int, first: int, last: int
) -> Iterator[tuple[int, bytes]]:
    """Entries from `first` to `last`, ascending, read as they are asked for.

    LedgerNotFoundError if the ledger was never here, or is deleted; StorageError for what cannot be read.
    JournalDamagedError, after all that can be read, if entries may be missing.
    """
    with _opened(disk, config) as opened:
        yield from opened.entries(ledger_id, first, last)


@contextmanager
def _opened(disk: Disk, config: StorageConfig) -> Iterator[_Opened]:
    paths = StoragePaths.of(config)
    logs = EntryLogReader(disk, paths)
    with opened_index(disk, paths) as (index, mark), closing(logs):
        yield _Opened(disk, paths, index, mark, logs)


class _Opened:
    """Index, entry logs and journal tail of a stopped bookie."""

    def __init__(
        self, disk: Disk, paths: StoragePaths, index: Index, mark: LogMark, logs: EntryLogReader
    ) -> None:
        self.index = index
        self._logs = logs
        self.tail: list[Record] = []
        self.damage: list[JournalDamage] = []
        for each in journal_contents(disk, paths.journal, mark):
            if isinstance(each, JournalDamage):
                self.damage.append(each)
            else:
                self.tail.append(each.record)

    def entries(self, ledger_id: int, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        mine = [each for each in self.tail if _is_of(each, ledger_id)]
        state = self.index.state(ledger_id)
        if state is None and not mine:
            if self.damage:
                raise _incomplete(
                    self.damage, f"what can be read has no ledger {ledger_id}, the damaged part may"
                )
            raise LedgerNotFoundError(
                f"ledger {ledger_id} was never on this bookie: `bookie info --data DIR` lists those that are",
                ledger_id=ledger_id,
            )
        if (state is not None and state.deleted) or any(each.type is RecordType.TOMBSTONE for each in mine):
            raise LedgerNotFoundError(
                f"ledger {ledger_id} is deleted on this bookie: a start serves none of its entries",
                ledger_id=ledger_id,
            )
        in_tail = _in_tail(mine, ledger_id, first, last)
        previous = -1
        for entry_id, entry in heapq.merge(self._indexed(ledger_id, first, last), sorted(in_tail.items())):
            if entry_id != previous:  # a checkpoint may have stored what the tail still has
                yield entry_id, entry
            previous = entry_id
        if self.damage:
            raise _incomplete(self.damage, f"entries of ledger {ledger_id} may be missing here")

    def _indexed(self, ledger_id: int, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        for interval in self.index.intervals(ledger_id, 0, last):
            if interval.last < first:
                continue
            [block] = self._logs.read(ledger_id, [interval])
            for entry_id in block.ids:
                if max(first, interval.first) <= entry_id <= min(last, interval.last):
                    entry = block.entry(entry_id)
                    assert entry is not None, "a block holds what it lists"
                    yield entry_id, bytes(entry)


def _is_of(record: Record, ledger_id: int) -> bool:
    if record.type in (RecordType.ADDS, RecordType.BLOCK):
        return any(each == ledger_id for each, _, _, _ in entries_of(record))
    return record.type is not RecordType.NEXT_FILE and ledger_of(record.body) == ledger_id


def _in_tail(records: list[Record], ledger_id: int, first: int, last: int) -> dict[int, bytes]:
    return {
        entry_id: bytes(entry)
        for record in records
        for its_ledger, entry_id, _, entry in entries_of(record)
        if its_ledger == ledger_id and first <= entry_id <= last
    }
