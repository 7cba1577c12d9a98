"""The entries in the answer to a batch read, as they are stored, each verified against its digest. Pure."""

from __future__ import annotations

from ledger.errors import DigestMismatchError, ProtocolError
from ledger.model import LedgerId
from ledger.wire.digest import Digester
from ledger.wire.entry import Buffer
from ledger.wire.v2 import split_sized


def intact_entries(
    body: memoryview, ledger_id: LedgerId, first: int, count_max: int, digester: Digester
) -> list[Buffer]:
    """Consecutive entries from `first` on, at least one, up to the first damaged one: the next read starts there.

    Raises:
        DigestMismatchError: the first one is damaged.
        ProtocolError: the answer has another form.
    """
    entries: list[Buffer] = []
    for entry_id, entry in enumerate(split_sized(body, 0)[:count_max], first):
        try:
            digester.verify(entry, ledger_id, entry_id)
        except DigestMismatchError:
            if not entries:
                raise
            break
        entries.append(entry)
    if not entries:
        raise ProtocolError("batch read answer with status EOK holds no entry")
    return entries
