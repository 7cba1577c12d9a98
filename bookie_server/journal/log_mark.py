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
from ledger.wire.crc32c import crc32c

MAGIC = b"DLOGMARK"
VERSION = 1
_MARK = struct.Struct(">8sIIQQQQ")


@dataclass(frozen=True, slots=True, order=True)
class LogMark:
    file_id: int
    offset: int
    sequence: int
    generation: int = 0


def encode_log_mark(mark: LogMark) -> bytes:
    blank = _MARK.pack(MAGIC, VERSION, 0, mark.file_id, mark.offset, mark.sequence, mark.generation)
    return blank[:12] + crc32c(blank[16:], crc32c(blank[:12])).to_bytes(4, "big") + blank[16:]


def decode_log_mark(data: bytes, path: object) -> LogMark:
    """IndexVersionError, IndexDamagedError."""
    if len(data) != _MARK.size or data[:8] != MAGIC:
        raise IndexDamagedError(f"{path} is not a log mark: it does not have {_MARK.size} bytes", path=path)
    _, version, crc, file_id, offset, sequence, generation = _MARK.unpack(data)
    if crc32c(data[16:], crc32c(data[:12])) != crc:
        raise IndexDamagedError(
            f"log mark {path} is damaged: restore it; if it is lost, start a new bookie under another id",
            path=path,
        )
    if version > VERSION:
        raise IndexVersionError(
            f"log mark {path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
            version=version,
            version_max=VERSION,
        )
    return LogMark(file_id, offset, sequence, generation)
