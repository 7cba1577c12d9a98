"""Bytes of a journal file: its header and its records. Pure: no files are opened here.

    file header, 512 bytes
    offset  size  field
    0       8     magic        "DLOGJRNL"
    8       4     version      u32 big-endian, like all numbers here; 2 if records of type BLOCK may follow, else 1
    12      4     crc          CRC32C of the other 508 bytes
    16      8     file id      u64, the number in the file's name
    24      8     salt         u64, random per file
    32      480   zeros

    record
    0       4     marker       u32 taken from the salt, never 0
    4       4     length       u32, bytes of the body
    8       4     crc          CRC32C of salt, of a BLOCK its offset (u64), of bytes 0-7, bytes 12-31 and body
    12      1     type         see RecordType
    13      3     zeros
    16      8     sequence     u64, one more than the record before, across files
    24      8     group start  u64, offset in this file where the record's group begins
    32      n     body

A zero marker ends the file: the rest is preallocated space. A group is written only after the group before
it was synced, so a valid record proves that everything before its group start had been durable.

Pitfall: docs/pitfalls.md#stale-bytes-after-the-tail.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from bookie_server.errors import JournalDamagedError, JournalRecordError, JournalVersionError
from bookie_server.file_header import is_intact, with_crc
from ledger.wire.crc32c import crc32c
from ledger.wire.entry import STORED_BYTES_MIN

SUFFIX = ".journal"
MAGIC = b"DLOGJRNL"
VERSION = 2
VERSION_WITHOUT_BLOCKS = 1
FILE_HEADER_BYTES = 512
RECORD_HEADER_BYTES = 32

_FILE_HEADER = struct.Struct(">8sIIQQ480x")
_RECORD_HEADER = struct.Struct(">IIIB3xQQ")
_HEAD = struct.Struct(">II")
_TAIL = struct.Struct(">B3xQQ")
_SALT = struct.Struct(">Q")
_LEDGER = struct.Struct(">q")
_LEDGER_LAC = struct.Struct(">qq")
_IDS = struct.Struct(">qqq")
_COUNT = struct.Struct(">I")


class RecordType(IntEnum):
    ADDS = 1
    """u32 count, count times u32 entry bytes, the entries as stored, one after the other."""
    LEDGER_KEY = 2
    """i64 ledger id, then the master key."""
    FENCE = 3
    """i64 ledger id."""
    EXPLICIT_LAC = 4
    """i64 ledger id, i64 LAC, then the packet as it came."""
    TOMBSTONE = 5
    """i64 ledger id: deleted, permanently."""
    NEXT_FILE = 6
    """u64 id of the file in which the journal goes on. The last record of a file."""
    BLOCK = 7
    """Entries of one ledger that stay here (`block.py`). Its CRC covers its place: it is read without those before."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    file_id: int
    salt: int
    version: int = VERSION_WITHOUT_BLOCKS
    marker: int = field(init=False, repr=False)
    """Starts every record of this file, so that a search for records after damage is cheap."""
    crc_seed: int = field(init=False, repr=False)
    """What every record's checksum starts from; it and `marker` follow from the salt."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "marker", (self.salt ^ self.salt >> 32) & 0xFFFFFFFF or 1)
        object.__setattr__(self, "crc_seed", crc32c(_SALT.pack(self.salt)))


@dataclass(frozen=True, slots=True)
class Record:
    """A record that proved intact. `body` is a slice of the file's content."""

    type: RecordType
    sequence: int
    group_start: int
    body: memoryview
    file_id: int
    offset: int
    """Where it is."""


def file_name(file_id: int) -> str:
    return f"{file_id:016x}{SUFFIX}"


def encode_file_header(header: FileHeader) -> bytes:
    return with_crc(_FILE_HEADER.pack(MAGIC, header.version, 0, header.file_id, header.salt))


def decode_file_header(data: bytes, path: object) -> FileHeader:
    """JournalVersionError, JournalDamagedError (the header was synced before the file got its name)."""
    if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
        raise JournalDamagedError(f"{path} is not a journal file: its header is missing", path=path, offset=0)
    if not is_intact(data[:FILE_HEADER_BYTES]):
        raise JournalDamagedError(f"the header of journal file {path} is damaged", path=path, offset=0)
    _, version, _, file_id, salt = _FILE_HEADER.unpack_from(data)
    if version > VERSION:
        raise JournalVersionError(
            f"journal file {path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
            path=path,
            version=version,
            version_max=VERSION,
        )
    return FileHeader(file_id, salt, version)


def encode_record(
    header: FileHeader, kind: RecordType, sequence: int, group_start: int, body: bytes, offset: int = 0
) -> tuple[bytes, bytes]:
    """The record as header and body, so that a large body is not copied once more. `offset` is that of a BLOCK."""
    head = _HEAD.pack(header.marker, len(body))
    tail = _TAIL.pack(kind, sequence, group_start)
    crc = crc32c(body, crc32c(head + tail, _seed(header, kind, offset)))
    return b"".join((head, crc.to_bytes(4, "big"), tail)), body


def _seed(header: FileHeader, kind: int, offset: int) -> int:
    """A block is as wrong as a flipped bit if it is read from elsewhere than where it was written."""
    return crc32c(_SALT.pack(offset), header.crc_seed) if kind == RecordType.BLOCK else header.crc_seed


def decode_record(
    header: FileHeader, data: memoryview, offset: int, base: int = 0, *, apart: bool = False
) -> Record | None:
    """The record at `offset`, None unless it is intact and belongs to this file, of which `data` begins at `base`.

    `apart`: its body is no view of `data`, which it would keep in memory.
    """
    start = offset + RECORD_HEADER_BYTES
    if start > len(data):
        return None
    marker, length, crc, kind, sequence, group_start = _RECORD_HEADER.unpack_from(data, offset)
    if marker != header.marker or start + length > len(data) or group_start > base + offset:
        return None
    covered = bytes(data[offset : offset + 8]) + bytes(data[offset + 12 : start])
    body = data[start : start + length]
    copy = bytes(body)
    if crc32c(copy, crc32c(covered, _seed(header, kind, base + offset))) != crc or kind not in _KNOWN:
        return None
    kept = memoryview(copy) if apart else body
    return Record(RecordType(kind), sequence, group_start, kept, header.file_id, base + offset)


def record_start(header: FileHeader, data: bytes) -> tuple[RecordType, int] | None:
    """Type and size of the record whose header begins `data`, None if none begins here. Not proved by its CRC."""
    if len(data) < RECORD_HEADER_BYTES:
        return None
    marker, length, _, kind, _, _ = _RECORD_HEADER.unpack_from(data)
    return (
        (RecordType(kind), RECORD_HEADER_BYTES + length)
        if marker == header.marker and kind in _KNOWN
        else None
    )


_KNOWN = frozenset(RecordType)

# ---- bodies. Those who decode raise JournalRecordError before they return anything.


def adds_body(lengths: Sequence[int], entries: Sequence[memoryview | bytes]) -> bytes:
    return b"".join((struct.pack(f">{len(lengths) + 1}I", len(lengths), *lengths), *entries))


def decode_adds(body: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
    """(ledger id, entry id, LAC, entry) of each add, as slices of the body."""
    _require(body, _COUNT.size, "adds")
    (count,) = _COUNT.unpack_from(body)
    offset = _COUNT.size + 4 * count
    _require(body, offset, "adds")
    lengths = struct.unpack_from(f">{count}I", body, _COUNT.size)
    if offset + sum(lengths) != len(body) or min(lengths, default=STORED_BYTES_MIN) < STORED_BYTES_MIN:
        raise JournalRecordError(f"a record of {count} adds has {len(body)} bytes, which are not its entries")
    for length in lengths:
        entry = body[offset : offset + length]
        ledger_id, entry_id, lac = _IDS.unpack_from(entry)
        yield ledger_id, entry_id, lac, entry
        offset += length


def key_body(ledger_id: int, master_key: bytes) -> bytes:
    return _LEDGER.pack(ledger_id) + master_key


def ledger_body(ledger_id: int) -> bytes:
    """Body of FENCE, TOMBSTONE and (with a file id) NEXT_FILE."""
    return _LEDGER.pack(ledger_id)


def explicit_lac_body(ledger_id: int, lac: int, packet: bytes) -> bytes:
    return _LEDGER_LAC.pack(ledger_id, lac) + packet


def ledger_of(body: memoryview) -> int:
    _require(body, _LEDGER.size, "a ledger")
    ledger_id: int = _LEDGER.unpack_from(body)[0]
    return ledger_id


def decode_key(body: memoryview) -> tuple[int, bytes]:
    return ledger_of(body), bytes(body[8:])


def decode_explicit_lac(body: memoryview) -> tuple[int, int, bytes]:
    _require(body, _LEDGER_LAC.size, "an explicit LAC")
    ledger_id, lac = _LEDGER_LAC.unpack_from(body)
    return ledger_id, lac, bytes(body[16:])


def _require(body: memoryview, size: int, what: str) -> None:
    if len(body) < size:
        raise JournalRecordError(f"a record of {what} has {len(body)} bytes, at least {size} are needed")
