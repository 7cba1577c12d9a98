"""A file that holds the password of a log, so that it is on no command line and in no query."""

from __future__ import annotations

from pathlib import Path

from ledger.errors import ConfigurationError

_BYTES_MAX = 4096


def password_in(path: str, named_by: str) -> bytes:
    """What the file holds, without one newline at its end: 1 to 4,096 bytes.

    Raises:
        ConfigurationError: the file cannot be read, is empty, or too long for a password; the error names `named_by`.
    """
    try:
        with Path(path).open("rb") as file:
            found = file.read(_BYTES_MAX + 1).removesuffix(b"\n")
    except OSError as error:
        raise ConfigurationError(f"{named_by} names a file that cannot be read: {error}") from error
    if not 0 < len(found) <= _BYTES_MAX:
        raise ConfigurationError(
            f"{named_by} must name a file with the log's password, 1 to {_BYTES_MAX} bytes, and {path!r} has "
            f"{'none' if not found else 'more'}"
        )
    return found
