"""Headers of a bookie's files, changed: by chance, and by a newer version."""

from __future__ import annotations

from ledger.wire.crc32c import crc32c


def flips(data: bytes) -> list[bytes]:
    """Every single-bit change of `data`."""
    changed = []
    for bit in range(8 * len(data)):
        copy = bytearray(data)
        copy[bit // 8] ^= 1 << bit % 8
        changed.append(bytes(copy))
    return changed


def with_version(header: bytes, version: int) -> bytes:
    """As another version would write it: magic, version, CRC32C of all the other bytes, and these."""
    start = header[:8] + version.to_bytes(4, "big")
    return start + crc32c(header[16:], crc32c(start)).to_bytes(4, "big") + header[16:]
