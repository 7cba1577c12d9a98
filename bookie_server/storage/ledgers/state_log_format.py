"""Bytes of the file `ledger-states`: what the index holds and the entry logs do not tell. Pure.

    file header, 16 bytes
    offset  size  field
    0       8     magic        "DLOGSTAT"
    8       4     version      u32 big-endian, like all numbers here
    12      4     crc          CRC32C of the other 12 bytes

    frame
    0       4     magic        "STAT"
    4       4     crc          CRC32C of the offset of this frame (u64) and of bytes 8 to the end
    8       8     generation   u64: with this frame everything up to this generation is here; 0 if more follows
    16      4     body bytes   u32
    20      ...   records: key bytes u16, value bytes u32, key, value

A record is one of the index, "S" (ledger state) or "M" (limbo), or "E" with a log id (u64): where the blocks of this
entry log end (u64), 0 if it is removed and may come back after a power cut, all ones if the end is not known. The last
record with a key counts. What does not begin with a good frame is the torn end of the file, or damage: the file is
complete if its generations reach that of the log mark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from bookie_server.errors import IndexVersionError
from bookie_server.file_header import is_intact, with_crc
from ledger.wire.crc32c import crc32c

MAGIC = b"DLOGSTAT"
VERSION = 1
FILE_HEADER_BYTES = 16
LOG_END = b"E"
REMOVED = 0
"""In place of the end of an entry log that was removed."""
NOT_KNOWN = 2**64 - 1
"""In place of the end of one that was full before this file was there: its blocks go on to the end of the file."""

_FILE_HEADER = struct.Struct(">8sII")
_FRAME_MAGIC = b"STAT"
_FRAME = struct.Struct(">4sIQI")
_PLACE = struct.Struct(">Q")
_RECORD = struct.Struct(">HI")
_LOG = struct.Struct(">cQ")
_NUMBER = struct.Struct(">Q")
_LOG_END_BYTES = (_LOG.size, _NUMBER.size)

Record = tuple[bytes, bytes]


@dataclass(slots=True)
class StateFile:
    """What the good frames of such a file say."""

    records: dict[bytes, bytes] = field(default_factory=dict)
    """Of the index, by key: ledger states, and limbo if it is in limbo."""
    log_ends: dict[int, int] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    """Files that hold nothing any more; after a power cut they may be there again, as far as they were not freed."""
    generation: int = -1
    """Everything up to this generation is here; -1 if the file is none of ours or its first frames are damaged."""


def encode_file_header() -> bytes:
    return with_crc(_FILE_HEADER.pack(MAGIC, VERSION, 0))


def require_known_version(data: bytes, path: object) -> None:
    """IndexVersionError if a newer version wrote this header; every other one that is not ours is damage."""
    if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
        return
    _, version, _ = _FILE_HEADER.unpack_from(data)
    if version > VERSION and is_intact(data[:FILE_HEADER_BYTES]):
        raise IndexVersionError(
            f"ledger states {path} have version {version}, this bookie reads up to {VERSION}: start a newer version",
            version=version,
            version_max=VERSION,
        )


def log_end_record(log_id: int, offset: int) -> Record:
    return _LOG.pack(LOG_END, log_id), _NUMBER.pack(offset)


def encode_frame(offset: int, generation: int, records: Iterable[Record]) -> bytes:
    """The frame for this place in the file; `generation` 0 unless it is the last one of its generation."""
    body = b"".join(
        part for key, value in records for part in (_RECORD.pack(len(key), len(value)), key, value)
    )
    rest = _FRAME.pack(_FRAME_MAGIC, 0, generation, len(body))[8:] + body
    return b"".join((_FRAME_MAGIC, crc32c(rest, crc32c(_PLACE.pack(offset))).to_bytes(4, "big"), rest))


def decode_state_file(data: bytes) -> StateFile:
    """Everything up to the first frame that is not whole."""
    return _decoded(data, with_records=True)


def decode_log_ends(data: bytes) -> StateFile:
    """The same without `records`: with those of deleted ledgers they are more with each year."""
    return _decoded(data, with_records=False)


def _decoded(data: bytes, *, with_records: bool) -> StateFile:
    found = StateFile()
    if data[:FILE_HEADER_BYTES] != encode_file_header():
        return found
    offset = FILE_HEADER_BYTES
    while (frame := _frame_at(data, offset)) is not None:
        generation, body = frame
        records = _records(body)
        if records is None:
            break
        for key, value in records:
            if key[:1] == LOG_END:
                _take_end(found, _LOG.unpack(key)[1], _NUMBER.unpack(value)[0])
            elif with_records:
                found.records[key] = value
        found.generation = generation or found.generation
        offset += _FRAME.size + len(body)
    return found


def _take_end(found: StateFile, log_id: int, end: int) -> None:
    if end == REMOVED:
        found.log_ends.pop(log_id, None)
        found.removed.add(log_id)
    else:
        found.log_ends[log_id] = end
        found.removed.discard(log_id)


def _frame_at(data: bytes, offset: int) -> tuple[int, memoryview] | None:
    start = offset + _FRAME.size
    if start > len(data):
        return None
    magic, crc, generation, body_bytes = _FRAME.unpack_from(data, offset)
    end = start + body_bytes
    if magic != _FRAME_MAGIC or end > len(data):
        return None
    if crc32c(data[offset + 8 : end], crc32c(_PLACE.pack(offset))) != crc:
        return None
    return generation, memoryview(data)[start:end]


def _records(body: memoryview) -> list[Record] | None:
    """None if the body is not whole records, which its checksum alone does not show."""
    found: list[Record] = []
    offset = 0
    while offset < len(body):
        start = offset + _RECORD.size
        if start > len(body):
            return None
        key_bytes, value_bytes = _RECORD.unpack_from(body, offset)
        middle, offset = start + key_bytes, start + key_bytes + value_bytes
        key, value = bytes(body[start:middle]), bytes(body[middle:offset])
        if offset > len(body) or (key[:1] == LOG_END and (len(key), len(value)) != _LOG_END_BYTES):
            return None
        found.append((key, value))
    return found
