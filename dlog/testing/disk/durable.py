"""What a sync of a journal made durable, for the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bookie_server.errors import JournalDamagedError
from bookie_server.journal.block import entries_of
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    decode_explicit_lac,
    decode_file_header,
    decode_record,
    ledger_of,
)
from dlog.testing.kernel.trace import Trace
from dlog.testing.network.frames import Said, in_runs


class JournalObserver:
    """One bookie's; called with a file's name and content after each sync of it."""

    def __init__(self, trace: Trace, node: str) -> None:
        self._trace = trace
        self._node = node
        self._reported: dict[Path, int] = {}

    def synced(self, path: Path, content: bytes | bytearray) -> None:
        if path.suffix != ".journal":
            return
        data = memoryview(bytes(content))
        try:
            header = decode_file_header(bytes(data[:FILE_HEADER_BYTES]), path)
        except JournalDamagedError:
            return  # a disk that is not observed any more
        start = self._reported.get(path, FILE_HEADER_BYTES)
        if start > len(data):
            start = FILE_HEADER_BYTES
        said = []
        for record in self._records(path, header, data, start):
            said += list(_said(record))
        if said:
            self._trace.event("durable", self._node, "; ".join(map(str, in_runs(said))))

    def _records(self, path: Path, header: FileHeader, data: memoryview, offset: int) -> Iterator[Record]:
        while (record := decode_record(header, data, offset)) is not None:
            offset += RECORD_HEADER_BYTES + len(record.body)
            self._reported[path] = offset
            yield record


def _said(record: Record) -> Iterator[Said]:
    match record.type:
        case RecordType.ADDS | RecordType.BLOCK:
            for ledger_id, entry_id, lac, _ in entries_of(record):
                yield Said("ADD", ledger_id, entry_id, lac=lac)
        case RecordType.EXPLICIT_LAC:
            ledger_id, lac, _ = decode_explicit_lac(record.body)
            yield Said("LAC", ledger_id, lac=lac)
        case RecordType.FENCE | RecordType.TOMBSTONE | RecordType.LEDGER_KEY:
            yield Said(record.type.name, ledger_of(record.body))
        case RecordType.NEXT_FILE:
            return
