"""The writer's close against what metadata says by then (docs/bookkeeper.md#close, docs/pitfalls.md#close-race).

CLOSED is terminal. One choice is stricter than Java's client: IN_RECOVERY met by the writer's close means that
another client recovers the ledger, and is reported as that instead of being overwritten.
"""

from __future__ import annotations

from ledger.errors import LedgerFencedError
from ledger.model import EntryId, LedgerId, LedgerMetadata, LedgerState


def needs_close(ledger_id: LedgerId, metadata: LedgerMetadata, last_entry: EntryId, length: int) -> bool:
    """Whether to write CLOSED; False if the ledger is closed at exactly this entry and length.

    Raises:
        LedgerFencedError: another client closes or closed it.
    """
    if metadata.state is LedgerState.OPEN:
        return True
    if metadata.closed and (metadata.last_entry, metadata.length) == (last_entry, length):
        return False
    found = (
        f"closed at entry {metadata.last_entry}" if metadata.closed else "being recovered by another client"
    )
    raise LedgerFencedError(
        f"ledger {ledger_id} is {found}, this writer confirmed entry {last_entry}; it has lost the ledger",
        ledger_id=ledger_id,
        last_entry=metadata.last_entry if metadata.closed else None,
    )
