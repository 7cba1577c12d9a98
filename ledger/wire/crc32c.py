"""CRC-32C (Castagnoli) at C speed: google-crc32c's C extension where it was built, else crcmod. Pure.

Both take `bytes` only; a caller with a memoryview copies first, which costs far less than a slow CRC.
"""

from collections.abc import Callable

import crcmod
import google_crc32c

Extend = Callable[[int, bytes], int]
"""(crc so far, more bytes) → crc. Starts from 0; extending is the same as hashing the concatenation."""

_POLYNOMIAL = 0x11EDC6F41


def crcmod_extend() -> Extend:
    """CRC-32C by crcmod: the fallback, and the independent oracle of the tests."""
    function: Callable[[bytes, int], int] = crcmod.mkCrcFun(
        _POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF
    )

    def extend_with_crcmod(crc: int, data: bytes) -> int:
        return function(data, crc)

    return extend_with_crcmod


def _fastest() -> Extend:
    if google_crc32c.implementation == "c":
        google_extend: Extend = google_crc32c.extend
        return google_extend
    return crcmod_extend()


extend: Extend = _fastest()


def crc32c(data: bytes, seed: int = 0) -> int:
    """The CRC-32C of `data`, unsigned, continued from the CRC `seed` of the bytes before it."""
    return extend(seed, data)
