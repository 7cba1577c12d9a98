"""Keys that end with the id of a ledger. Pure."""

from __future__ import annotations

from collections.abc import Callable

from ledger.digits import whole_number
from ledger.errors import MetadataFormatError
from ledger.model import LEDGER_ID_MAX, LedgerId


def ledger_id_in(key: str, prefix: str, key_of: Callable[[int], str], what: str) -> LedgerId:
    """The ledger that has the key, which begins with `prefix`. `what`: what the store has under it.

    Raises:
        MetadataFormatError: `key_of` makes no such key.
    """
    ledger_id = whole_number(key.removeprefix(prefix), LEDGER_ID_MAX)
    if ledger_id is None or key != key_of(ledger_id):
        raise MetadataFormatError(f"the store has {what} under {key[:60]!r}, which is no key of one", key=key)
    return LedgerId(ledger_id)
