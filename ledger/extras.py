"""Whether the packages of an extra are installed; looked up by name, which loads none of them."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ledger.errors import MissingExtraError


def require(what: str, extra: str, *packages: str) -> None:
    """Return if all `packages` can be imported.

    Raises:
        MissingExtraError: names `what` and the first package that is missing.
    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(what, package, extra)


def require_for_command(command: str, extra: str, *packages: str) -> None:
    """As `require`, for the entry point of a command, before it imports what the extra installs.

    If a package is missing: one sentence on stderr, and the process exits with 2.
    """
    try:
        require(f"the {command} command", extra, *packages)
    except MissingExtraError as error:
        print(f"{command}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
