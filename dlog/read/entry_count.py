"""Number of messages in an entry, by its envelope."""

from __future__ import annotations

from dlog.errors import EntryFormatError
from dlog.format.entry import decode_envelope
from ledger.reading.read_handle import ReadHandle
from ledger.reading.shared_ledgers import SharedLedger


async def message_count(handle: ReadHandle | SharedLedger, entry_id: int) -> int:
    """Read the entry and return the number of its messages.

    Raises:
        ReadError: no replica could be read.
        EntryNotFoundError: the entry is proved absent.
        EntryFormatError: it cannot be decoded.
    """
    (entry,) = await handle.read(entry_id, entry_id)
    try:
        return decode_envelope(entry.payload)[0].count
    except EntryFormatError as error:
        raise EntryFormatError(
            f"entry {entry_id} of ledger {handle.ledger_id}: {error}",
            ledger_id=handle.ledger_id,
            entry_id=entry_id,
        ) from error
