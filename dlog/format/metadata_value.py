"""What all values of a log's metadata have in common: the frame, the canonical form, checked fields. Pure.

    offset  size  field
    0       3     magic     "DLG"
    3       1     kind      which value it is
    4       1     version   of the value
    5       n     value     one msgpack array, canonical
    5+n     4     crc       u32 big-endian, CRC-32 of all bytes before it

There is one encoding of each value; anything else is RecordFormatError, and no other exception leaves the decoders.
What to do about a damaged value is added by who knows its key.
The table is in docs/formats.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import msgpack

from dlog.errors import RecordFormatError, RecordTooLargeError

MAGIC = b"DLG"
VALUE_BYTES_MAX = 1_000_000
"""ZooKeeper's default limit for one node is 1 MiB; this leaves room for the request around the value."""
TEXT_CHARS_MAX = 300

_HEADER_BYTES = 5
_CRC_BYTES = 4
_VALUE_BYTES_MIN = _HEADER_BYTES + 1 + _CRC_BYTES
_I64_MAX = 2**63 - 1
_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)


def encode_value(kind: bytes, version: int, value: object) -> bytes:
    """The frame around a value. RecordTooLargeError above VALUE_BYTES_MAX."""
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, ValueError, UnicodeEncodeError) as error:
        raise RecordFormatError(f"log metadata cannot be encoded: {error}") from error
    body = MAGIC + kind + bytes([version]) + packed
    if len(body) + _CRC_BYTES > VALUE_BYTES_MAX:
        raise RecordTooLargeError(
            f"log metadata would have {len(body) + _CRC_BYTES} bytes, the limit is {VALUE_BYTES_MAX}: "
            "open the log for writing, which moves its older ledgers into pages",
            record_bytes=len(body) + _CRC_BYTES,
            record_bytes_max=VALUE_BYTES_MAX,
        )
    return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "big")


def open_value(data: bytes, kind: bytes, versions: tuple[int, ...]) -> tuple[int, object]:
    """The version, and the value in the frame."""
    if len(data) > VALUE_BYTES_MAX or len(data) < _VALUE_BYTES_MIN:
        raise RecordFormatError(
            f"log metadata has {len(data)} bytes, expected {_VALUE_BYTES_MIN} to {VALUE_BYTES_MAX}"
        )
    if data[:3] != MAGIC or data[3:4] != kind:
        raise RecordFormatError(
            f"log metadata starts with {data[:4]!r}, expected {MAGIC + kind!r}: another program may have written it"
        )
    body, crc = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "big")
    if zlib.crc32(body) != crc:  # before the version, which may be what is damaged
        raise RecordFormatError(
            f"log metadata is damaged: CRC-32 is {zlib.crc32(body):#010x}, stored {crc:#010x}"
        )
    version = data[4]
    if version > versions[-1]:
        raise RecordFormatError(
            f"log metadata has format version {version}, this release reads versions up to {versions[-1]}: "
            "upgrade dlog",
            newer_version=version,
        )
    if version not in versions:
        raise RecordFormatError(
            f"log metadata has format version {version}, which no release has: another program may have written it"
        )
    return version, _unpack(body[_HEADER_BYTES:])


def _unpack(packed: bytes) -> object:
    try:
        value: object = msgpack.unpackb(packed, use_list=False, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise RecordFormatError(f"log metadata is not valid msgpack: {error}") from error
    return value


def check_canonical(data: bytes, encoded: bytes) -> None:
    if data != encoded:
        raise RecordFormatError(
            "log metadata is not in its canonical form: another program may have written it"
        )


# ---- one field


def array(value: object, length: int, what: str) -> tuple[object, ...]:
    if not isinstance(value, tuple) or len(value) != length:
        raise RecordFormatError(f"{what}: expected an array of {length} fields, got {str(value)[:80]}")
    return value


def many(decode: Callable[[object], _T], value: object, what: str) -> tuple[_T, ...]:
    if not isinstance(value, tuple):
        raise RecordFormatError(f"{what}: expected an array, got {str(value)[:80]}")
    return tuple(decode(one) for one in value)


def optional(decode: Callable[[object], _T], value: object) -> _T | None:
    return None if value is None else decode(value)


def integer(value: object, what: str, *, low: int = 0, high: int = _I64_MAX) -> int:
    if type(value) is not int or not low <= value <= high:
        raise RecordFormatError(f"{what}: expected an integer of {low} to {high}, got {str(value)[:80]}")
    return value


def text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise RecordFormatError(
            f"{what}: expected text of up to {TEXT_CHARS_MAX} characters, got {str(value)[:80]}"
        )
    return value


def choice(kind: type[_Choice], value: object, what: str) -> _Choice:
    try:
        return kind(text(value, what))
    except ValueError as error:
        raise RecordFormatError(
            f"{what} {str(value)[:80]!r} is unknown to this release, perhaps of a later one"
        ) from error
