"""The writer's close, as metadata: CLOSED at the entry up to which it vouches for the ledger."""

from __future__ import annotations

from ledger.client_context import ClientContext
from ledger.core.metadata_changes import needs_close
from ledger.metadata.update_loop import update_ledger
from ledger.model import EntryId, LedgerId, LedgerMetadata, Versioned


async def write_closed(
    context: ClientContext,
    ledger_id: LedgerId,
    local: Versioned[LedgerMetadata],
    last_entry: EntryId,
    length: int,
) -> Versioned[LedgerMetadata]:
    """Return once metadata says CLOSED at `last_entry` with `length`; raises as `WriteHandle.close`."""
    return await update_ledger(
        context.store,
        ledger_id,
        local,
        lambda found: needs_close(ledger_id, found, last_entry, length),
        lambda found: found.closed_at(last_entry, length),
        context.environment,
    )
