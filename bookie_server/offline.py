"""What the files of a stopped bookie hold. Blocks; changes no journal and no entry log.

The journal is read from its first record to its last good one. A ledger is read from the index and the entry
logs, together with what only the journal's tail has yet, as a start would replay it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk import Disk
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import LogMark, decode_log_mark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    Record,
    RecordType,
    decode_adds,
    decode_file_header,
    decode_record,
    file_name,
    ledger_of,
)
from bookie_server.storage.entry_log import EntryLogReader
from bookie_server.storage.index import Index
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.storage_config import StorageConfig

FIRST_MARK = LogMark(0, 0, 0)


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """One journal record and where it lies."""

    path: Path
    offset: int
    record: Record

    @property
    def next_offset(self) -> int:
        return self.offset + RECORD_HEADER_BYTES + len(self.record.body)


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """A ledger of a stopped bookie."""

    ledger_id: int
    fenced: bool
    deleted: bool
    lac: int
    entries: dict[int, bytes]


def journal_records(disk: Disk, directory: Path, mark: LogMark = FIRST_MARK) -> Iterator[FoundRecord]:
    """Every good record from the mark on. JournalDamagedError for a file without a good header."""
    for file_id in file_ids(disk, directory):
        if file_id >= mark.file_id:
            path = directory / file_name(file_id)
            start = mark.offset if file_id == mark.file_id else FILE_HEADER_BYTES
            yield from _records_of(disk, path, start)


def ledger_ids(disk: Disk, config: StorageConfig) -> list[int]:
    """Ledgers that are here and not deleted, ascending."""
    with_index = _Opened(disk, config)
    try:
        found = set(with_index.index.ledger_ids())
        for each in with_index.tail:
            if each.type is RecordType.TOMBSTONE:
                found.discard(ledger_of(each.body))
            elif each.type is RecordType.LEDGER_KEY:
                found.add(ledger_of(each.body))
        return sorted(found)
    finally:
        with_index.close()


def read_ledger(
    disk: Disk, config: StorageConfig, ledger_id: int, first: int, last: int
) -> FoundLedger | None:
    """The ledger with its entries from `first` to `last`, None if it was never here. StorageError."""
    opened = _Opened(disk, config)
    try:
        return opened.ledger(ledger_id, first, last)
    finally:
        opened.close()


class _Opened:
    """Index, entry logs and journal tail of a stopped bookie."""

    def __init__(self, disk: Disk, config: StorageConfig) -> None:
        paths = StoragePaths.of(config)
        self._disk = disk
        self._logs = EntryLogReader(disk, paths.entry_logs)
        self.index = Index(disk.open_key_values(paths.index))
        mark = decode_log_mark(disk.read_file(paths.mark), paths.mark)
        self.tail = [each.record for each in journal_records(disk, paths.journal, mark)]

    def close(self) -> None:
        self._logs.close()
        self.index.close()

    def ledger(self, ledger_id: int, first: int, last: int) -> FoundLedger | None:
        state = self.index.state(ledger_id)
        mine = [each for each in self.tail if each.type is not RecordType.SEAL and _is_of(each, ledger_id)]
        if state is None and not mine:
            return None
        kinds = {each.type for each in mine}
        entries = self._indexed(ledger_id, first, last) | _in_tail(mine, ledger_id, first, last)
        lacs = [int.from_bytes(entry[16:24], "big", signed=True) for entry in entries.values()]
        return FoundLedger(
            ledger_id=ledger_id,
            fenced=RecordType.FENCE in kinds or (state is not None and state.fenced),
            deleted=RecordType.TOMBSTONE in kinds or (state is not None and state.deleted),
            lac=max([*lacs, -1 if state is None else state.lac]),
            entries=dict(sorted(entries.items())),
        )

    def _indexed(self, ledger_id: int, first: int, last: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for interval in self.index.intervals(ledger_id, 0, last):
            if interval.last < first:
                continue
            [block] = self._logs.read(ledger_id, [interval])
            for entry_id in block.ids:
                entry = block.entry(entry_id) if max(first, interval.first) <= entry_id <= last else None
                if entry is not None and entry_id <= interval.last:
                    found[entry_id] = bytes(entry)
        return found


def _records_of(disk: Disk, path: Path, offset: int) -> Iterator[FoundRecord]:
    content = memoryview(disk.read_file(path))
    header = decode_file_header(bytes(content[:FILE_HEADER_BYTES]), path)
    while (record := decode_record(header, content, offset)) is not None:
        found = FoundRecord(path, offset, record)
        yield found
        offset = found.next_offset


def _is_of(record: Record, ledger_id: int) -> bool:
    if record.type is RecordType.ADDS:
        return any(each == ledger_id for each, _, _, _ in decode_adds(record.body))
    return ledger_of(record.body) == ledger_id


def _in_tail(records: list[Record], ledger_id: int, first: int, last: int) -> dict[int, bytes]:
    return {
        entry_id: bytes(entry)
        for record in records
        if record.type is RecordType.ADDS
        for its_ledger, entry_id, _, entry in decode_adds(record.body)
        if its_ledger == ledger_id and first <= entry_id <= last
    }
