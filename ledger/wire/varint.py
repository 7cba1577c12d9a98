"""Protobuf's variable-length integers, for the messages that are written and read by hand. Pure."""

from __future__ import annotations

_U64 = (1 << 64) - 1
_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """A negative number takes ten bytes, as protobuf's int64 does."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if 0 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0 <= value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    value &= _U64
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_value(encoded: bytes) -> int:
    """The unsigned number of one complete varint."""
    size = len(encoded)
    if size == 1:
        return encoded[0]
    if size == 2:
        return encoded[0] & 0x7F | encoded[1] << 7
    if size == 3:
        return encoded[0] & 0x7F | (encoded[1] & 0x7F) << 7 | encoded[2] << 14
    value = 0
    for byte in reversed(encoded):
        value = value << 7 | byte & 0x7F
    return value
