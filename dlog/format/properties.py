"""Texts that programs store with a log, or with a cursor of one: which may be stored, and their bytes. Pure.

A log's own have the frame of every value of its metadata (metadata_value.py), of kind "U" and version 1:

    properties  [property, …]        property  [name, value]

They are sorted by name, and each name is there once.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlog.errors import RecordFormatError
from dlog.format.metadata_value import array, check_canonical, encode_value, many, open_value
from ledger.arguments import require_type
from ledger.errors import ConfigurationError

Properties = tuple[tuple[str, str], ...]

PROPERTIES_VERSIONS = (1,)
PROPERTIES_MAX = 64
PROPERTIES_BYTES_MAX = 32 * 1024
"""Of names and values together, in UTF-8."""
_KIND = b"U"


def encode_log_properties(properties: Properties) -> bytes:
    return encode_value(_KIND, PROPERTIES_VERSIONS[-1], property_fields(properties))


def decode_log_properties(data: bytes) -> Properties:
    """Read those of a log strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND, PROPERTIES_VERSIONS)
    properties = decode_properties(value, "properties")
    check_canonical(data, encode_log_properties(properties))
    return properties


def property_fields(properties: Properties) -> list[object]:
    return [list(one) for one in properties]


def decode_properties(value: object, what: str) -> Properties:
    found = many(_decode_property, value, what)
    names = [name for name, _ in found]
    if names != sorted(set(names)):
        raise RecordFormatError(f"{what}: expected each name once, in order")
    return found


def checked_properties(properties: Mapping[str, str]) -> Properties:
    """The properties as they are stored.

    Raises:
        ConfigurationError: too many, or one is no text, or they are too long.
    """
    require_type("properties", properties, Mapping)
    if len(properties) > PROPERTIES_MAX:
        raise ConfigurationError(
            f"at most {PROPERTIES_MAX} properties can be stored, got {len(properties)}: store the rest elsewhere"
        )
    byte_count = 0
    for name, value in properties.items():
        require_type("the name of a property", name, str)
        require_type(f"property {name[:80]!r}", value, str)
        if not name:
            raise ConfigurationError("the name of a property is empty")
        try:
            byte_count += len(name.encode()) + len(value.encode())
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"property {name[:80]!r} is no text: it has a lone surrogate") from error
    if byte_count > PROPERTIES_BYTES_MAX:
        raise ConfigurationError(
            f"properties have {byte_count} bytes together, the limit is {PROPERTIES_BYTES_MAX}: store them elsewhere, "
            "and their address here"
        )
    return tuple(sorted(properties.items()))


def _decode_property(value: object) -> tuple[str, str]:
    name, content = array(value, 2, "property")
    if not isinstance(name, str) or not isinstance(content, str):
        raise RecordFormatError(f"property: expected a name and a text, got {str(value)[:80]}")
    return name, content
