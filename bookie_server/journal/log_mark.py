"""The log mark: from where on the journal must be replayed. Pure bytes of a 48-byte file.

    offset  size  field
    0       8     magic       "DLOGMARK"
    8       4     version     u32 big-endian, like all numbers here
    12      4     crc         CRC32C of the other 44 bytes
    16      8     file id     u64
    24      8     offset      u64, a record starts here or the journal ends here
    32      8     sequence    u64, of the record that starts here
    40      8     generation  u64, the index must be at this generation or later

Invariant: written only after entry log and index were synced, so that everything before it is in them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bookie_server.errors import IndexDamagedError, IndexVersionError
from bookie_server.file_header import is_intact, with_crc

MAGIC = b"DLOGMARK"
VERSION = 1
_RESTORE = "restore it; if it is lost, start a new bookie under another id (docs/operations.md)"
_MARK = struct.Struct(">8sIIQQQQ")


@dataclass(frozen=True, slots=True, order=True)
class LogMark:
    file_id: int
    offset: int
    sequence: int
    generation: int = 0


def encode_log_mark(mark: LogMark) -> bytes:
    return with_crc(_MARK.pack(MAGIC, VERSION, 0, mark.file_id, mark.offset, mark.sequence, mark.generation))


def decode_log_mark(data: bytes, path: object) -> LogMark:
    """IndexVersionError, IndexDamagedError."""
    if len(data) != _MARK.size or data[:8] != MAGIC:
        raise IndexDamagedError(
            f"{path} is not a log mark: {_RESTORE}",
            path=path,
        )
    _, version, _, file_id, offset, sequence, generation = _MARK.unpack(data)
    if not is_intact(data):
        raise IndexDamagedError(
            f"log mark {path} is damaged: {_RESTORE}",
            path=path,
        )
    if version > VERSION:
        raise IndexVersionError(
            f"log mark {path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
            version=version,
            version_max=VERSION,
        )
    return LogMark(file_id, offset, sequence, generation)
