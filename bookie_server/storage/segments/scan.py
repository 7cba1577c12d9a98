"""All blocks of a journal file, found without the index, and the places where there should be one. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.sectors import read_file_around
from bookie_server.errors import DiskFailedError, JournalDamagedError
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    decode_record,
)
from bookie_server.storage.entry_logs.format import decode_facts
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock
from bookie_server.storage.segments.places import segment_header


def scan_segment(
    disk: Disk, path: Path, log_id: int, end: int | None, start: int = 0
) -> Iterator[FoundBlock | Damage]:
    """In the order of the file, from `start`, where a record begins, up to `end`.

    0: from the beginning; None: up to the last record that proves intact.

    JournalVersionError: a newer version wrote the file.
    """
    try:
        content = read_file_around(disk, path)
        header = segment_header(content, log_id, path)
    except (DiskFailedError, JournalDamagedError):
        yield Damage(path, 0, end or 0)
        return
    view = memoryview(content)
    offset = max(start, FILE_HEADER_BYTES)
    while end is None or offset < end:
        record = decode_record(header, view, offset)
        if record is None:
            next_offset = _next_record(header, content, offset + 1, end)
            if next_offset is None:
                return
            yield Damage(path, offset, next_offset)
            offset = next_offset
            continue
        yield from _blocks_of(record, view, log_id, path)
        offset += RECORD_HEADER_BYTES + len(record.body)


def _blocks_of(record: Record, view: memoryview, log_id: int, path: Path) -> Iterator[FoundBlock | Damage]:
    if record.type is RecordType.BLOCK:
        end = record.offset + RECORD_HEADER_BYTES + len(record.body)
        block = decode_facts(view[record.offset : end], RECORD_HEADER_BYTES)
        if block is None:
            yield Damage(path, record.offset, end)
        else:
            yield FoundBlock(log_id, record.offset, block)


def _next_record(header: FileHeader, content: bytes, offset: int, end: int | None) -> int | None:
    """Where the next good record begins, else `end`."""
    marker, view = header.marker.to_bytes(4, "big"), memoryview(content)
    at = content.find(marker, offset, end)
    while at >= 0:
        if decode_record(header, view, at) is not None:
            return at
        at = content.find(marker, at + 1, end)
    return end
