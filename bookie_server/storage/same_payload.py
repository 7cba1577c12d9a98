"""Whether two stored entries of one id carry the same payload. Pure.

Recovery and repair add an entry again with the LAC they know, so the LAC and the digest may differ between
copies although payload and length are the same. The bookie is not told the digest type; it finds out which
digest the bytes prove (CRC32C, CRC32), and else compares what no digest can cover. An entry too short for its
header or for a MAC repeats another only if nothing but the LAC differs.

Protocol: docs/bookkeeper.md#repeated-adds. Pitfall: docs/pitfalls.md#other-bytes-under-one-id.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ledger.wire.crc32c import crc32c

_HEADER_BYTES = 32
_LAC = slice(16, 24)
_MAC_BYTES = 20

_CHECKS: tuple[tuple[int, Callable[[bytes], int]], ...] = ((4, crc32c), (8, zlib.crc32))


def same_payload(stored: memoryview | bytes, offered: memoryview | bytes) -> bool:
    """True if `offered` repeats `stored`: same ids, length and payload; LAC and digest may differ."""
    if len(stored) != len(offered):
        return False
    if stored == offered:
        return True
    one, other = bytes(stored), bytes(offered)
    if one[_LAC] == other[_LAC] or one[:16] != other[:16] or one[24:32] != other[24:32]:
        return False
    start = _HEADER_BYTES + _digest_bytes(one, other)
    return one[start:] == other[start:]


def _digest_bytes(one: bytes, other: bytes) -> int:
    for size, check in _CHECKS:
        if _proves(one, size, check) and _proves(other, size, check):
            return size
    # No digest (DUMMY) leaves byte 32 on equal; a MAC differs and covers the payload behind it.
    return _MAC_BYTES if len(one) >= _HEADER_BYTES + _MAC_BYTES else 0


def _proves(entry: bytes, size: int, check: Callable[[bytes], int]) -> bool:
    payload = _HEADER_BYTES + size
    digest = int.from_bytes(entry[_HEADER_BYTES:payload], "big")
    return len(entry) >= payload and check(entry[:_HEADER_BYTES] + entry[payload:]) == digest
