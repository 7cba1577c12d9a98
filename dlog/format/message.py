"""Bytes of messages: consecutive msgpack objects, five to a message, packed and unpacked a batch at a time.

    object   msgpack type   meaning
    magic    int 0-255      version of the message format; 1 is the only one so far
    attr     int 0-255      eight flag bits; none is defined in version 1, so it is 0
    key      bin or nil     nil is "no key" and differs from an empty key
    payload  bin or nil     nil is a tombstone
    headers  array of bin   flat: key, value, key, value ...; order and duplicates are kept

Invariant: every object has msgpack's shortest form, so a batch has exactly one encoding and a decoded batch encodes
to the bytes it came from. There are no bytes between messages. Layout and history: docs/formats.md.

One msgpack call per field is what makes Python slow; so a batch is columns here (its keys, its payloads, its headers),
and all of it crosses into C once. What is decoded is tuples: the readers of one client share it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgpack

from dlog.errors import EntryFormatError
from ledger.arguments import require_type
from ledger.errors import ConfigurationError

MAGIC = 1
FIELDS = 5
FIXED_BYTES = 3
"""magic, attr and the header of an array of at most 15: one byte each."""

HEADERS_MAX = 1000
"""Pairs in one message. Bounds what a decoder reserves on an array's claim, and keeps to 16-bit arrays."""

Flat = tuple[bytes, ...]
Buffer = bytes | bytearray | memoryview

_ARRAY_32 = struct.Struct(">BI")
_HUGE_ARRAY = re.compile(rb"\xdd\x00")
_NONE_TYPE = type(None)
_OPTIONAL_BIN = frozenset({bytes, _NONE_TYPE})
NO_HEADERS: Flat = ()
_pack = msgpack.packb if msgpack.Packer.__module__ == "msgpack.fallback" else msgpack.Packer().pack
"""The packer of the extension in C is shared by all threads: for the types used here it neither releases the GIL nor
calls back into Python. In the one that is written in Python threads would write into one buffer."""


class Columns(NamedTuple):
    """The messages of one entry, a column per field, all of one length."""

    keys: Sequence[bytes | None]
    payloads: Sequence[bytes | None]
    headers: Sequence[Flat]


# ---- sizes


def bin_bytes(value: bytes | None) -> int:
    """Encoded size of a bin or nil."""
    if value is None:
        return 1
    size = len(value)
    return size + (2 if size < 0x100 else 3 if size < 0x10000 else 5)


def _column_bytes(column: Sequence[bytes | None], nils: int) -> int:
    if nils == len(column):
        return nils
    sizes = list(map(len, filter(_is_bin, column) if nils else column))  # type: ignore[arg-type]  # no nil left
    if max(sizes) < 0x100:
        return nils + 2 * len(sizes) + sum(sizes)
    return nils + sum(sizes) + sum(2 if size < 0x100 else 3 if size < 0x10000 else 5 for size in sizes)


def _is_bin(value: bytes | None) -> bool:
    return value is not None


def _arrays_bytes(counts: Sequence[int]) -> int:
    """What array headers take beyond the one byte that each of them has."""
    return 0 if max(counts) < 16 else 2 * sum(count >= 16 for count in counts)


def message_bytes(key: bytes | None, payload: bytes | None, headers: Flat) -> int:
    """Encoded size of one message."""
    if key is None and not headers and payload is not None:
        size = len(payload)  # the common case in one step: this runs once per message
        return size + FIXED_BYTES + (3 if size < 0x100 else 4 if size < 0x10000 else 6)
    size = FIXED_BYTES + bin_bytes(key) + bin_bytes(payload)
    if headers:
        size += _arrays_bytes([len(headers)]) + sum(map(bin_bytes, headers))
    return size


def columns_bytes(columns: Columns) -> int:
    """Encoded size of a batch."""
    count = len(columns.payloads)
    size = FIXED_BYTES * count
    for column in (columns.keys, columns.payloads):
        size += _column_bytes(column, column.count(None))
    if columns.headers.count(NO_HEADERS) != count:
        parts = list(chain.from_iterable(columns.headers))
        size += _arrays_bytes(list(map(len, columns.headers))) + _column_bytes(parts, 0)
    return size


# ---- checking what a caller hands in


def as_bin(value: Buffer | None, what: str) -> bytes | None:
    """Bytes-like to bytes; anything else is the caller's mistake (text must be encoded by its owner)."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise ConfigurationError(f"{what} must be bytes or None, got {type(value).__name__}: encode it to bytes")


def as_bin_column(values: Iterable[Buffer | None], what: str) -> list[bytes | None]:
    """The same for a whole column, without a Python step per value when all is bytes already."""
    column_name = f"{what.removeprefix('a ')}s"
    require_type(column_name, values, Iterable)
    if isinstance(values, str | bytes | bytearray | memoryview | dict | set | frozenset):
        given = type(values).__name__
        raise ConfigurationError(
            f"{column_name} must be a list with an element for each message, got one {given}"
        )
    column = list(values)
    if set(map(type, column)) <= _OPTIONAL_BIN:
        return column  # type: ignore[return-value]  # just checked
    return [as_bin(value, what) for value in column]


def flat_headers(headers: Iterable[tuple[bytes, bytes]]) -> Flat:
    """Header pairs as the flat array that is stored."""
    require_type("headers", headers, Iterable)
    flat: list[bytes] = []
    for pair in headers:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or not all(isinstance(part, bytes | bytearray | memoryview) for part in pair)
        ):
            raise ConfigurationError(f"a header must be a pair of bytes (key, value), got {pair!r:.80}")
        flat.append(bytes(pair[0]))
        flat.append(bytes(pair[1]))
    if len(flat) > 2 * HEADERS_MAX:
        raise ConfigurationError(
            f"a message has at most {HEADERS_MAX} headers, got {len(flat) // 2}: put the rest into the payload"
        )
    return tuple(flat)


def header_pairs(flat: Flat) -> tuple[tuple[bytes, bytes], ...]:
    """The flat array as pairs of name and value."""
    return tuple(zip(flat[0::2], flat[1::2], strict=True)) if flat else ()


# ---- encode


def encode_messages(columns: Columns) -> bytes:
    """Pack a batch in one call. The values are bytes, None and flat headers (see `as_bin_column`)."""
    keys, payloads, headers = columns
    count = len(payloads)
    flat: list[object] = [MAGIC, 0, None, None, NO_HEADERS] * count
    flat[2::FIELDS] = keys
    flat[3::FIELDS] = payloads
    flat[4::FIELDS] = headers
    packed: bytes = _pack(flat)
    size = len(flat)
    return packed[1 if size < 16 else 3 if size < 0x10000 else 5 :]


def encode_one(key: bytes | None, payload: bytes | None, headers: Flat) -> bytes:
    """Pack one message: the same bytes as of a batch of one, in half the time."""
    packed: bytes = _pack((MAGIC, 0, key, payload, headers))
    return packed[1:]


# ---- decode


def decode_messages(body: Buffer, count: int) -> Columns:
    """Unpack exactly `count` messages from exactly `body`. EntryFormatError is the only error."""
    if count < 0 or count * FIELDS > len(body):
        raise EntryFormatError(
            f"entry claims {count} messages in {len(body)} bytes, a message has at least {FIELDS}: it is damaged"
        )
    flat = _unpack(body, count * FIELDS)
    magics, attrs = flat[0::FIELDS], flat[1::FIELDS]
    if magics.count(MAGIC) != count or attrs.count(0) != count:
        raise _version_error(magics, attrs)
    _check_integers(body, magics, attrs)
    columns = Columns(flat[2::FIELDS], flat[3::FIELDS], flat[4::FIELDS])
    encoded = FIXED_BYTES * count + _bins_bytes(columns.keys) + _bins_bytes(columns.payloads)
    encoded += _header_arrays_bytes(columns.headers)
    if encoded != len(body):
        raise EntryFormatError(
            f"the messages have {len(body)} bytes, their canonical encoding has {encoded}: the entry is damaged"
        )
    return columns


def _unpack(body: Buffer, objects: int) -> tuple[Any, ...]:
    # An array header in front turns N objects into one object: one call into C.
    wrapped = b"".join((_ARRAY_32.pack(0xDD, objects), body))
    try:
        if _HUGE_ARRAY.search(wrapped, _ARRAY_32.size):
            return _unpack_guarded(body, objects)
        found: tuple[Any, ...] = msgpack.unpackb(
            wrapped,
            use_list=False,
            max_array_len=max(objects, 2 * HEADERS_MAX),
            max_map_len=0,
            max_ext_len=0,
            max_str_len=0,
        )
    except (ValueError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise EntryFormatError(f"messages are not valid msgpack ({reason}): the entry is damaged") from error
    return found


def _unpack_guarded(body: Buffer, objects: int) -> tuple[Any, ...]:
    """The slower way for a body in which an inner array may claim 65,536 items or more.

    Nested claims would make msgpack reserve that many slots a thousand levels deep, so none may claim more
    than a message's headers can have. (A payload that merely contains such bytes comes this way, too.)
    """
    unpacker = msgpack.Unpacker(
        use_list=False,
        max_buffer_size=max(len(body), 1),
        max_array_len=2 * HEADERS_MAX,
        max_map_len=0,
        max_ext_len=0,
        max_str_len=0,
    )
    unpacker.feed(body)
    found = tuple(islice(unpacker, objects))
    if len(found) != objects:
        raise EntryFormatError(
            f"entry claims {objects // FIELDS} messages, but ends after {len(found) // FIELDS}: it is damaged"
        )
    return found


def _check_integers(body: Buffer, magics: Sequence[object], attrs: Sequence[object]) -> None:
    """`true` equals 1 and `false` equals 0, and neither is an integer of the format."""
    raw = bytes(body)
    if (b"\xc3" in raw or b"\xc2" in raw) and set(map(type, chain(magics, attrs))) != {int}:
        raise EntryFormatError("magic and attr of a message must be integers: the entry is damaged")


def _bins_bytes(column: Sequence[Any]) -> int:
    """Encoded size of what must be bins and nils. Checking and measuring share their passes over the column."""
    nils = column.count(None)
    if nils == len(column):
        return nils
    if not set(map(type, column)) <= _OPTIONAL_BIN:
        raise EntryFormatError("key and payload of a message must be bin or nil: the entry is damaged")
    return _column_bytes(column, nils)


def _header_arrays_bytes(headers: Sequence[Any]) -> int:
    """Encoded size of what must be flat arrays of bins, beyond the one byte that every array has."""
    if headers.count(NO_HEADERS) == len(headers):
        return 0
    if set(map(type, headers)) != {tuple}:
        raise EntryFormatError("headers of a message must be an array: the entry is damaged")
    counts, parts = list(map(len, headers)), list(chain.from_iterable(headers))
    if max(counts) > 2 * HEADERS_MAX:
        raise EntryFormatError(
            f"a message has {max(counts) // 2} headers, the limit is {HEADERS_MAX}: it is damaged"
        )
    if any(count % 2 for count in set(counts)) or set(map(type, parts)) != {bytes}:
        raise EntryFormatError(
            "headers of a message must be a flat array of key and value bins: the entry is damaged"
        )
    return _arrays_bytes(counts) + _column_bytes(parts, 0)


def _version_error(magics: Sequence[object], attrs: Sequence[object]) -> EntryFormatError:
    """What to say about the first message that is not of this version."""
    for index, (magic, attr) in enumerate(zip(magics, attrs, strict=True)):
        if magic != MAGIC:
            return EntryFormatError(
                f"message {index} has magic {magic!r:.20}, this program reads magic {MAGIC}: "
                "it was written by a newer version, or is damaged",
                magic=magic,
            )
        if attr != 0:
            break
    return EntryFormatError(
        f"message {index} has attr {attr!r:.20}, magic {MAGIC} defines no such flag: "
        "it was written by a newer version, or is damaged",
        attr=attr,
    )
