"""Bytes of a cursor. Pure.

The frame is that of every value of a log's metadata (metadata_value.py), of kind "C" and version 1:

    cursor    [position, properties, updated µs, holder]; of a removed one [nil, [], 0, holder]
    position  [ledger, entry, batch index]        property  [name, value]

Properties are sorted by name. The name of the cursor is in its key.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlog.errors import RecordFormatError
from dlog.format.metadata_value import array, check_canonical, encode_value, integer, many, open_value
from dlog.model import Cursor, MessageId, StoredCursor
from ledger.arguments import require_type
from ledger.errors import ConfigurationError

CURSOR_VERSIONS = (1,)
PROPERTIES_MAX = 64
PROPERTY_CHARS_MAX = 4096

_KIND = b"C"


def encode_cursor(stored: StoredCursor) -> bytes:
    return encode_value(_KIND, CURSOR_VERSIONS[-1], _fields(stored))


def _fields(stored: StoredCursor) -> list[object]:
    cursor = stored.cursor
    if cursor is None:
        return [None, [], 0, stored.holder]
    properties = [list(one) for one in cursor.properties]
    return [list(cursor.position), properties, cursor.updated_us, stored.holder]


def decode_cursor(name: str, data: bytes) -> StoredCursor:
    """Read the cursor of this name strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND, CURSOR_VERSIONS)
    position, properties, updated_us, holder = array(value, 4, "cursor")
    cursor = None
    if position is not None:
        cursor = Cursor(
            name=name,
            position=_decode_position(position),
            properties=many(_decode_property, properties, "cursor properties"),
            updated_us=integer(updated_us, "time of a cursor"),
        )
        names = [one for one, _ in cursor.properties]
        if names != sorted(set(names)):
            raise RecordFormatError("cursor properties: expected each name once, in order")
    stored = StoredCursor(holder=integer(holder, "holder of a cursor"), cursor=cursor)
    check_canonical(data, encode_cursor(stored))
    return stored


def checked_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The properties as a cursor holds them.

    Raises:
        ConfigurationError: too many, or one is too long or no text.
    """
    require_type("properties", properties, Mapping)
    if len(properties) > PROPERTIES_MAX:
        raise ConfigurationError(
            f"a cursor has at most {PROPERTIES_MAX} properties, got {len(properties)}: store the rest elsewhere"
        )
    for name, value in properties.items():
        require_type("the name of a property", name, str)
        require_type(f"property {name!r}", value, str)
        if not (_is_unicode(name) and _is_unicode(value)):
            raise ConfigurationError(
                f"property {name[:80]!r} of a cursor has a lone surrogate: it is no text"
            )
        if max(len(name), len(value)) > PROPERTY_CHARS_MAX:
            raise ConfigurationError(
                f"property {name[:80]!r} of a cursor has {max(len(name), len(value))} characters, the limit is "
                f"{PROPERTY_CHARS_MAX}: store it elsewhere, and its address here"
            )
    return tuple(sorted(properties.items()))


def _decode_position(value: object) -> MessageId:
    ledger_id, entry_id, batch_index = array(value, 3, "position of a cursor")
    return MessageId(
        integer(ledger_id, "ledger of a cursor"),
        integer(entry_id, "entry of a cursor"),
        integer(batch_index, "batch index of a cursor", high=2**31 - 1),
    )


def _decode_property(value: object) -> tuple[str, str]:
    name, content = array(value, 2, "cursor property")
    return _text(name), _text(content)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > PROPERTY_CHARS_MAX:
        raise RecordFormatError(
            f"cursor property: expected text of up to {PROPERTY_CHARS_MAX} characters, got {str(value)[:80]}"
        )
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
