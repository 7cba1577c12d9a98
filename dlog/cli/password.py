"""The password of a log, for the commands that read, fence or write its ledgers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.errors import ConfigurationError, UnauthorizedError

VARIABLE = "DLOG_PASSWORD_FILE"
_BYTES_MAX = 4096


def given_password() -> bytes:
    """What the file has that the environment names, without one newline at its end; empty without the variable.

    Raises:
        ConfigurationError: the file cannot be read, is empty, or too long for a password.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return b""
    try:
        with Path(path).open("rb") as file:
            found = file.read(_BYTES_MAX + 1).removesuffix(b"\n")
    except OSError as error:
        raise ConfigurationError(f"{VARIABLE} names a file that cannot be read: {error}") from error
    if not 0 < len(found) <= _BYTES_MAX:
        raise ConfigurationError(
            f"{VARIABLE} must name a file with the log's password, 1 to {_BYTES_MAX} bytes, and {path!r} has "
            f"{'none' if not found else 'more'}"
        )
    return found


@contextmanager
def password_explained() -> Iterator[None]:
    """Raise the refusal of a log's password as what the user can change."""
    try:
        yield
    except UnauthorizedError as error:
        if error.ledger_id is None or error.bookie_id is not None:
            raise  # of the metadata store, or of a bookie, which may refuse for other reasons
        if path := os.environ.get(VARIABLE):
            reason = f"ledger {error.ledger_id} of the log does not have the password in {path!r}: correct {VARIABLE}"
        else:
            reason = (
                f"the log has a password, which ledger {error.ledger_id} needs: set {VARIABLE} to the name of a file "
                "that holds it"
            )
        raise UnauthorizedError(reason, **error.facts) from error
