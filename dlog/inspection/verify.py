"""Checks every copy of every entry of a log. Fences nothing and writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from dlog.core.tailing import require_readable
from dlog.errors import DataLossError
from dlog.inspection.inspected import Inspected
from dlog.inspection.ledgers import listed_ledger, record_with_ledgers
from dlog.metadata.fresh_record import is_lost_ledger, way_out_of_loss
from dlog.model import ListedLedger
from ledger.errors import LedgerNotFoundError, LogStoreError, MetadataFormatError, ReadError
from ledger.inspection.copies import LedgerCopies
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import LedgerId

Progress = Callable[[int], None]
"""Called with a number of entries that were just checked."""


@dataclass(frozen=True, slots=True)
class UncheckedLedger:
    """A ledger that the log lists and whose copies could not be checked, and why."""

    ledger_id: LedgerId
    error: LogStoreError
    """DataLossError: it does not exist, or its metadata is damaged. MetadataFormatError: a newer release has written
    its metadata. ReadError: it is open, and too few bookies respond to determine its last readable entry."""


async def verify(
    client: Inspected, log: str, on_progress: Progress = lambda entries: None
) -> AsyncIterator[LedgerCopies | UncheckedLedger]:
    """The copies of each ledger of the log, oldest first, up to what is readable when it is opened.

    Also of entries below the trim position, in ledgers that are kept for later ones. A ledger that is trimmed and
    deleted during the call is left out; copies that are moved during the call are read where they are then. A ledger
    that is missing or damaged, or does not respond, is a result in its place.

    Raises:
        LogNotFoundError: no such log, or it is being deleted.
        HistoryPageError: a part of the list is lost.
        MetadataUnavailableError: the metadata store cannot be reached.
    """
    record, ledgers = await record_with_ledgers(client, log)
    require_readable(str(client.name(log)), record)
    audit = CopyAudit(client.ledgers)
    try:
        for listed in ledgers:
            try:
                found = await _copies_of(client, audit, listed.ledger_id, on_progress)
            except ReadError as error:
                yield UncheckedLedger(listed.ledger_id, error)
            except (LedgerNotFoundError, MetadataFormatError) as error:
                # Not a loss if it was trimmed and deleted since the list was read.
                if (still := await listed_ledger(client, log, listed.ledger_id)) is not None:
                    loss = loss_of_ledger(log, still, error) if is_lost_ledger(error) else error
                    yield UncheckedLedger(listed.ledger_id, loss)
            else:
                yield found
    finally:
        await audit.close()


async def _copies_of(
    client: Inspected, audit: CopyAudit, ledger_id: LedgerId, on_progress: Progress
) -> LedgerCopies:
    handle = await client.ledgers.open(ledger_id, client.config.password)
    try:
        return await audit.audit(ledger_id, handle.metadata, handle.last_readable, on_progress)
    finally:
        await handle.close()


def loss_of_ledger(
    log: str, listed: ListedLedger, error: LedgerNotFoundError | MetadataFormatError
) -> DataLossError:
    """That of a ledger for which `is_lost_ledger` is true of the error, with the way out."""
    ledger_id, sealed = listed.ledger_id, listed.seal is not None
    is_damaged = isinstance(error, MetadataFormatError)
    what = (
        f"the metadata of ledger {ledger_id} is damaged"
        if is_damaged
        else f"log {log} lists ledger {ledger_id}, which does not exist"
    )
    way_out = way_out_of_loss(ledger_id, sealed=sealed)
    return DataLossError(f"{what}: {way_out}", ledger_id=ledger_id)


def sealed_entries(ledgers: Sequence[ListedLedger]) -> int:
    """Number of entries in the sealed ones."""
    return sum(listed.seal.last_entry + 1 for listed in ledgers if listed.seal is not None)
