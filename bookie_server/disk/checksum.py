"""CRC32C of the bookie's own files. Pure."""

from __future__ import annotations

from google_crc32c import extend as _extend


def crc32c(data: bytes, seed: int = 0) -> int:
    """CRC32C of `data`, continuing from the CRC `seed` of the bytes before it."""
    value: int = _extend(seed, data)
    return value
