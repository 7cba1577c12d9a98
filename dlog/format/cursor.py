"""Bytes of a cursor. Pure.

The frame is that of every value of a log's metadata (metadata_value.py), of kind "C" and version 1:

    cursor    [position, properties, updated µs, holder]; of a removed one [nil, [], 0, holder]
    position  [ledger, entry, batch index]

The name of the cursor is in its key; its properties are those of properties.py.
"""

from __future__ import annotations

from dlog.format.metadata_value import array, check_canonical, encode_value, integer, open_value
from dlog.format.properties import decode_properties, property_fields
from dlog.model import Cursor, MessageId, StoredCursor

CURSOR_VERSIONS = (1,)
_KIND = b"C"


def encode_cursor(stored: StoredCursor) -> bytes:
    """RecordFormatError if the position could not be decoded again, so that it never replaces one that can."""
    return encode_value(_KIND, CURSOR_VERSIONS[-1], _fields(stored))


def _fields(stored: StoredCursor) -> list[object]:
    cursor = stored.cursor
    if cursor is None:
        return [None, [], 0, stored.holder]
    position = _decode_position(tuple(cursor.position))
    return [list(position), property_fields(cursor.properties), cursor.updated_us, stored.holder]


def decode_cursor(name: str, data: bytes) -> StoredCursor:
    """Read the cursor of this name strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND, CURSOR_VERSIONS)
    position, properties, updated_us, holder = array(value, 4, "cursor")
    cursor = None
    if position is not None:
        cursor = Cursor(
            name=name,
            position=_decode_position(position),
            properties=decode_properties(properties, "cursor properties"),
            updated_us=integer(updated_us, "time of a cursor"),
        )
    stored = StoredCursor(holder=integer(holder, "holder of a cursor"), cursor=cursor)
    check_canonical(data, encode_cursor(stored))
    return stored


def _decode_position(value: object) -> MessageId:
    ledger_id, entry_id, batch_index = array(value, 3, "position of a cursor")
    return MessageId(
        integer(ledger_id, "ledger of a cursor"),
        integer(entry_id, "entry of a cursor"),
        integer(batch_index, "batch index of a cursor", high=2**31 - 1),
    )
