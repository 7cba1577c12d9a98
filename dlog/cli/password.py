"""The password of a log, for the commands that read, fence or write its ledgers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dlog.password_file import password_in
from ledger.errors import UnauthorizedError

VARIABLE = "DLOG_PASSWORD_FILE"


def given_password() -> bytes:
    """What the file holds that the environment names; empty without the variable.

    Raises:
        ConfigurationError: as `password_in`.
    """
    path = os.environ.get(VARIABLE)
    return password_in(path, VARIABLE) if path else b""


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
