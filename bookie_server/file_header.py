"""The checksum in the headers of a bookie's files, which all have the same beginning. Pure; docs/formats.md.

    offset  size  field
    0       8     magic
    8       4     version
    12      4     CRC32C of all other bytes of the header
    16      …     what the file is about

Check it before the version: a flipped bit must not make a file one of a newer version.
"""

from __future__ import annotations

from ledger.wire.crc32c import crc32c

_CRC = slice(12, 16)


def with_crc(header: bytes) -> bytes:
    """The header with its checksum, in place of what is there."""
    return header[: _CRC.start] + _crc_of(header) + header[_CRC.stop :]


def is_intact(header: bytes) -> bool:
    return header[_CRC] == _crc_of(header)


def _crc_of(header: bytes) -> bytes:
    return crc32c(header[_CRC.stop :], crc32c(header[: _CRC.start])).to_bytes(4, "big")
