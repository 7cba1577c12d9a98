"""A log in a few facts: its record, its tail, and the replication of its newest ledger. Fences and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.admin import LogInfo
from dlog.inspection.inspected import Inspected
from dlog.ledger_list.ledger_list import LedgerList
from dlog.ledger_list.totals import ListTotals
from dlog.metadata.fresh_record import with_fresh_record
from dlog.model import MessageId
from dlog.read.tail import tail_of
from ledger.errors import LedgerNotFoundError
from ledger.model import LedgerMetadata


@dataclass(frozen=True, slots=True)
class Overview:
    info: LogInfo
    first: MessageId
    """The lowest id that a message of the log may have."""
    totals: ListTotals
    tail: MessageId
    newest: LedgerMetadata | None
    """Metadata of the last ledger; None if the log lists none, or if it was replaced during the call."""


async def overview(client: Inspected, log: str) -> Overview:
    """Read the record, the tail, and the newest ledger's metadata.

    Raises:
        LogNotFoundError: no such log.
        ReadError: too few bookies respond to determine the tail.
        DataLossError: an unsealed listed ledger does not exist.
    """
    info = await client.describe(log)
    newest = None
    if info.record.tail is not None:
        try:
            newest = (await client.ledgers.store.read_ledger(info.record.tail.ledger_id)).value
        except LedgerNotFoundError:
            newest = None  # an empty ledger that a takeover has dropped in the meantime
    first, totals = await with_fresh_record(
        client.logs, info.ref, client.ledgers.environment, _extent, "the extent"
    )
    tail = await tail_of(client.logs, info.ref, client.ledgers, client.config.password)
    return Overview(info, first, totals, tail, newest)


async def _extent(ledgers: LedgerList) -> tuple[MessageId, ListTotals]:
    return (await ledgers.window(0)).earliest, await ledgers.totals()
