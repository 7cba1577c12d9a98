"""A record's value ↔ the data of its node. Pure.

ZooKeeper needs a node for every part of a key. Invariant: a node with no data is no record, only the way to others;
so an empty value, and one that begins with the escape, is stored behind the escape. All others stay as they are.
"""

from __future__ import annotations

NO_RECORD = b""
_ESCAPE = b"\0"


def encode_value(value: bytes) -> bytes:
    return _ESCAPE + value if not value or value.startswith(_ESCAPE) else value


def decode_value(data: bytes) -> bytes | None:
    """The value, or None where there is no record."""
    if data == NO_RECORD:
        return None
    return data.removeprefix(_ESCAPE)
