"""Whether the packages of an extra are installed; looked up by name, which loads none of them."""

from __future__ import annotations

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
