"""The headers of a journal file, record by record: which blocks it holds, without reading their entries. Blocks.

As for entry logs (`entry_logs/headers.py`), a header is believed as far as it goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from bookie_server.disk.disk import ReadableFile
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    RecordType,
    decode_record,
    record_start,
)
from bookie_server.storage.entry_logs.format import (
    BLOCK_FACTS_BYTES,
    Block,
    BlockHeader,
    decode_facts,
    decode_header,
)
from bookie_server.storage.entry_logs.scan import next_block, read_some
from bookie_server.storage.segments.places import segment_header


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A record of the journal without a block."""

    size: int


class SegmentHeaders:
    """Of one journal file, up to `end`."""

    def __init__(self, file: ReadableFile, log_id: int, end: int) -> None:
        """JournalDamagedError, JournalVersionError: its records cannot be read."""
        self._header = segment_header(read_some(file, 0, FILE_HEADER_BYTES), log_id, file.path)
        self.begin = FILE_HEADER_BYTES
        self.end = end
        self._file = file

    def at(self, offset: int) -> BlockHeader | OtherRecord | None:
        """What begins there; None if that cannot be a record."""
        data = read_some(self._file, offset, RECORD_HEADER_BYTES + BLOCK_FACTS_BYTES)
        start = record_start(self._header, data)
        if start is None or offset + start[1] > self.end:
            return None
        kind, size = start
        if kind is not RecordType.BLOCK:
            return OtherRecord(size)
        header = decode_header(data, RECORD_HEADER_BYTES)
        return header if header is not None and header.size == size else None

    def block_at(self, offset: int) -> Block | None:
        """The block of the record that begins there, if it proves intact."""
        found = self.at(offset)
        if not isinstance(found, BlockHeader):
            return None
        data = memoryview(read_some(self._file, offset, found.size))
        intact = decode_record(self._header, data, 0, offset) is not None
        return decode_facts(data, RECORD_HEADER_BYTES) if intact else None

    def next_block(self, offset: int, stop: int) -> int:
        """Where the next intact block begins; `stop` or later if none begins before `stop`."""
        marker = self._header.marker.to_bytes(4, "big")
        return next_block(self._file, marker, self.block_at, offset, stop, self.end)
