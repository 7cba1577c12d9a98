"""Offline commands of `bookie`: the files of a stopped bookie as rows to print. Blocks.

The journal is read from its first record to its last good one. A ledger is read from the index and the entry logs,
together with the records that only the journal's tail has, as a start would replay them. Changes no journal and no
entry log.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bookie_server.cookie import read_cookie
from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.journal.block import entries_of
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    Record,
    RecordType,
    decode_explicit_lac,
    decode_file_header,
    decode_record,
    file_name,
    ledger_of,
)
from bookie_server.net.port import kept_port
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.start.index_directories import open_index
from bookie_server.storage.start.journal_recovery import read_mark
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.stopped_bookie import exclusively
from ledger.errors import LedgerNotFoundError
from ledger.printing import Row
from ledger.wire.entry import ENTRY_HEADER_BYTES, ENTRY_IDS, decode_header

FIRST_MARK = LogMark(0, 0, 0)

# ---- rows to print


def journal_rows(config: StorageConfig) -> Iterator[Row]:
    """One row for each record of the journal."""
    disk = SystemDisk()
    with exclusively(disk, config):
        for found in journal_records(disk, config.journal_directory):
            yield {
                "file": found.path.name,
                "offset": found.offset,
                "sequence": found.record.sequence,
                "type": found.record.type.name.lower(),
                "detail": _detail(found),
            }


def ledger_rows(config: StorageConfig, ledger_id: int, first: int, last: int) -> Iterator[Row]:
    """One row for each entry of the ledger. LedgerNotFoundError if the bookie has no such ledger."""
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


def directory_facts(config: StorageConfig) -> Row:
    """Whose directories these are, and what they hold."""
    disk = SystemDisk()
    with exclusively(disk, config):
        return _facts(disk, config)


def _facts(disk: Disk, config: StorageConfig) -> Row:
    cookie = read_cookie(disk, config.ledger_directory)
    total, free = disk.free_space(config.ledger_directory)
    ids, in_limbo = _held(disk, config)
    return {
        "bookie": None if cookie is None else cookie.bookie_id,
        "cluster": None if cookie is None else cookie.instance_id,
        "journal_dir": str(config.journal_directory),
        "ledger_dir": str(config.ledger_directory),
        "kept_port": kept_port(disk, config.ledger_directory),
        "in_limbo": in_limbo,
        "total_bytes": total,
        "free_bytes": free,
        "ledger_count": len(ids),
        "ledgers": ids,
    }


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
    """Every good record from the mark on. JournalDamagedError for a file without a good header."""
    for file_id in file_ids(disk, directory):
        if file_id >= mark.file_id:
            path = directory / file_name(file_id)
            start = mark.offset if file_id == mark.file_id else FILE_HEADER_BYTES
            yield from _records_of(disk, path, start)


def _held(disk: Disk, config: StorageConfig) -> tuple[list[int], bool]:
    """Ledgers that are here and not deleted, ascending; whether the next start is in limbo, as far as is noted."""
    opened = _Opened(disk, config)
    try:
        found = set(opened.index.ledger_ids())
        for each in opened.tail:
            if each.type is RecordType.TOMBSTONE:
                found.discard(ledger_of(each.body))
            elif each.type is RecordType.LEDGER_KEY:
                found.add(ledger_of(each.body))
        return sorted(found), opened.index.limbo_since() is not None
    finally:
        opened.close()


def ledger_entries(
    disk: Disk, config: StorageConfig, ledger_id: int, first: int, last: int
) -> Iterator[tuple[int, bytes]]:
    """Entries from `first` to `last`, ascending, read as they are asked for.

    LedgerNotFoundError if the ledger was never here, StorageError for what cannot be read.
    """
    opened = _Opened(disk, config)
    try:
        yield from opened.entries(ledger_id, first, last)
    finally:
        opened.close()


class _Opened:
    """Index, entry logs and journal tail of a stopped bookie."""

    def __init__(self, disk: Disk, config: StorageConfig) -> None:
        paths = StoragePaths.of(config)
        mark = read_mark(disk, paths)
        self.tail = [each.record for each in journal_records(disk, paths.journal, mark)]
        self._logs = EntryLogReader(disk, paths)
        self.index = open_index(disk, paths)

    def close(self) -> None:
        self._logs.close()
        self.index.close()

    def entries(self, ledger_id: int, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        mine = [
            each for each in self.tail if each.type is not RecordType.NEXT_FILE and _is_of(each, ledger_id)
        ]
        if self.index.state(ledger_id) is None and not mine:
            raise LedgerNotFoundError(
                f"ledger {ledger_id} was never on this bookie: `bookie info --data DIR` lists those that are",
                ledger_id=ledger_id,
            )
        in_tail = _in_tail(mine, ledger_id, first, last)
        previous = -1
        for entry_id, entry in heapq.merge(self._indexed(ledger_id, first, last), sorted(in_tail.items())):
            if entry_id != previous:  # a checkpoint may have stored what the tail still has
                yield entry_id, entry
            previous = entry_id

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


def _records_of(disk: Disk, path: Path, offset: int) -> Iterator[FoundRecord]:
    content = memoryview(disk.read_file(path))
    header = decode_file_header(bytes(content[:FILE_HEADER_BYTES]), path)
    while (record := decode_record(header, content, offset)) is not None:
        found = FoundRecord(path, offset, record)
        yield found
        offset = found.next_offset


def _is_of(record: Record, ledger_id: int) -> bool:
    if record.type in (RecordType.ADDS, RecordType.BLOCK):
        return any(each == ledger_id for each, _, _, _ in entries_of(record))
    return ledger_of(record.body) == ledger_id


def _in_tail(records: list[Record], ledger_id: int, first: int, last: int) -> dict[int, bytes]:
    return {
        entry_id: bytes(entry)
        for record in records
        for its_ledger, entry_id, _, entry in entries_of(record)
        if its_ledger == ledger_id and first <= entry_id <= last
    }
