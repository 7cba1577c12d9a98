"""How many messages an entry holds: its envelope says it."""

from __future__ import annotations

from dlog.errors import EntryFormatError
from dlog.format.entry import decode_envelope
from ledger.reading.read_handle import ReadHandle


async def message_count(handle: ReadHandle, entry_id: int) -> int:
    """Read the entry and count. ReadError, EntryNotFoundError, EntryFormatError."""
    (entry,) = await handle.read(entry_id, entry_id)
    try:
        return decode_envelope(entry.payload)[0].count
    except EntryFormatError as error:
        raise EntryFormatError(
            f"entry {entry_id} of ledger {handle.ledger_id}: {error}",
            ledger_id=handle.ledger_id,
            entry_id=entry_id,
        ) from error
