"""Which record keys are legal, for every driver. Pure.

A key is `/part/part/…`. The rules are the narrowest of our stores (a ZooKeeper path), so that a log can move.

Pitfall: docs/pitfalls.md#names-as-paths.
"""

from __future__ import annotations

import re

from ledger.errors import ConfigurationError, InvalidNameError

KEY_CHARACTERS_MAX = 1024
VALUE_BYTES_MAX = 1024 * 1024 - 1024
"""A ZooKeeper node holds at most 1 MiB with its envelope; every driver keeps to it."""

_KEY = re.compile(r"(/[!-.0-~]+)+")


def check_key(key: str) -> str:
    """Return the key if it is legal.

    Raises:
        InvalidNameError: it is not.
    """
    if (
        len(key) > KEY_CHARACTERS_MAX
        or not _KEY.fullmatch(key)
        or any(part in (".", "..") for part in key.split("/"))
    ):
        raise InvalidNameError(
            f"metadata key {key[:100]!r} is not valid: use /part/part of printable ASCII without spaces, "
            f"no part '.' or '..', at most {KEY_CHARACTERS_MAX} characters"
        )
    return key


def check_value(value: bytes, what: str) -> bytes:
    """Return the value if every store can hold it.

    Raises:
        ConfigurationError: it is too large.
    """
    if len(value) > VALUE_BYTES_MAX:
        raise ConfigurationError(
            f"{what} has {len(value)} bytes, a metadata value holds at most {VALUE_BYTES_MAX}: shorten it"
        )
    return value
