"""A log in a few facts: its record, its tail, and the replication of its newest ledger. Fences and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.admin import LogInfo
from dlog.inspection.inspected import Inspected
from dlog.inspection.unsealed import newest_ledgers
from dlog.ledger_list.ledger_list import LedgerList
from dlog.ledger_list.totals import ListTotals
from dlog.metadata.fresh_record import is_lost_ledger, with_fresh_record
from dlog.model import MessageId
from dlog.read.backlog import Amount
from dlog.read.tail import opener
from ledger.errors import LedgerNotFoundError, MetadataFormatError
from ledger.model import LedgerMetadata


@dataclass(frozen=True, slots=True)
class Overview:
    info: LogInfo
    first: MessageId
    """The lowest id that a message of the log may have."""
    totals: ListTotals
    """Of the sealed ledgers, also of those whose seals the record does not have yet."""
    tail: MessageId | None
    """None if too few bookies respond to determine it."""
    newest: LedgerMetadata | None
    """Metadata of the last ledger; None if the log lists none, if it is lost, or if it was replaced."""
    open: Amount | None
    """What is readable in the open ledger; None if too few bookies respond, or its last entry cannot be read."""

    @property
    def messages(self) -> int | None:
        """Of all listed ledgers; None if one could not be counted."""
        return counted_messages(self.totals, self.open)

    @property
    def bytes(self) -> int | None:
        """Of all listed ledgers, as stored; None if the open one is unknown."""
        return None if self.open is None else self.totals.bytes + self.open.bytes


def counted_messages(totals: ListTotals, of_open: Amount | None) -> int | None:
    """Of sealed ledgers and the open one together; None if one could not be counted."""
    if of_open is None or of_open.messages is None or totals.uncounted:
        return None
    return totals.messages + of_open.messages


async def overview(client: Inspected, log: str) -> Overview:
    """Read the record, what is readable of its newest ledgers, and the newest one's metadata.

    Raises:
        LogNotFoundError: no such log.
        DataLossError: an unsealed listed ledger does not exist, or its metadata is damaged.
    """
    info = await client.describe(log)
    newest = None
    if info.record.tail is not None:
        try:
            newest = (await client.ledgers.store.read_ledger(info.record.tail.ledger_id)).value
        except (LedgerNotFoundError, MetadataFormatError) as error:
            # It may be an empty ledger that a takeover has dropped in the meantime; a fresh record shows that below.
            if not is_lost_ledger(error):
                raise

    async def look(ledgers: LedgerList) -> Overview:
        found = await newest_ledgers(ledgers.record, opener(client.ledgers, client.config.password))
        known = client.logs.ledger_list(info.ref, found.record)
        first = (await known.window(0)).earliest
        return Overview(info, first, await known.totals(), found.tail, newest, found.open)

    return await with_fresh_record(client.logs, info.ref, client.ledgers.environment, look, "the extent")
