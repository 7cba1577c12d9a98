"""Checks every copy of every entry of a log. Fences nothing and writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from dlog.core.tailing import require_readable
from dlog.errors import DataLossError
from dlog.inspection.inspected import Inspected
from dlog.inspection.ledgers import listed_ledger, record_with_ledgers
from dlog.metadata.fresh_record import way_out_of_loss
from dlog.model import ListedLedger
from ledger.errors import LedgerNotFoundError
from ledger.inspection.copies import LedgerCopies
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import LedgerId

Progress = Callable[[int], None]
"""Called with a number of entries that were just checked."""


async def verify(
    client: Inspected, log: str, on_progress: Progress = lambda entries: None
) -> AsyncIterator[LedgerCopies]:
    """The copies of each ledger of the log, oldest first, up to what is readable when it is opened.

    Also of entries below the trim position, in ledgers that are kept for later ones. A ledger that is trimmed and
    deleted during the call is left out; copies that are moved during the call are read where they are then.

    Raises:
        LogNotFoundError: no such log, or it is being deleted.
        DataLossError: a listed ledger does not exist.
        ReadError: too few bookies respond to determine the last readable entry of the open ledger.
    """
    record, ledgers = await record_with_ledgers(client, log)
    require_readable(str(client.name(log)), record)
    audit = CopyAudit(client.ledgers)
    try:
        for listed in ledgers:
            try:
                found = await _audited(client, audit, listed.ledger_id, on_progress)
            except LedgerNotFoundError as error:
                if await listed_ledger(client, log, listed.ledger_id) is None:
                    continue
                raise DataLossError(
                    f"log {log} lists ledger {listed.ledger_id}, which does not exist: "
                    + way_out_of_loss(listed.ledger_id, sealed=listed.seal is not None),
                    ledger_id=listed.ledger_id,
                ) from error
            yield found
    finally:
        await audit.close()


async def _audited(
    client: Inspected, audit: CopyAudit, ledger_id: LedgerId, on_progress: Progress
) -> LedgerCopies:
    handle = await client.ledgers.open(ledger_id, client.config.password)
    try:
        return await audit.audit(ledger_id, handle.metadata, handle.last_readable, on_progress)
    finally:
        await handle.close()


def sealed_entries(ledgers: Sequence[ListedLedger]) -> int:
    """Number of entries in the sealed ones."""
    return sum(listed.seal.last_entry + 1 for listed in ledgers if listed.seal is not None)
