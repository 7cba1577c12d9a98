"""Every ledger that a log lists, also in pages. Fences nothing and writes nothing."""

from __future__ import annotations

from dlog.inspection.inspected import Inspected
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record, with_readable_record
from dlog.model import ListedLedger, LogMetadata


async def listed_ledgers(client: Inspected, log: str) -> list[ListedLedger]:
    """The ledgers of the log, oldest first.

    Raises:
        LogNotFoundError: no such log.
        HistoryPageError: a part of the list is lost.
    """
    return (await record_with_ledgers(client, log))[1]


async def record_with_ledgers(client: Inspected, log: str) -> tuple[LogMetadata, list[ListedLedger]]:
    """The record of the log and the ledgers that this record lists, oldest first. Raises the same."""

    async def look(ledgers: LedgerList) -> tuple[LogMetadata, list[ListedLedger]]:
        return ledgers.record, [listed async for listed in ledgers.walk()]

    ref = (await client.describe(log)).ref
    return await with_fresh_record(client.logs, ref, client.ledgers.environment, look, "the ledgers")


async def listed_ledger(client: Inspected, log: str, ledger_id: int) -> ListedLedger | None:
    """The ledger of this id; None if the log does not list it now.

    Raises the same; LogNotFoundError also if the log is being deleted, because then it lists none.
    """

    async def look(ledgers: LedgerList) -> ListedLedger | None:
        return await ledgers.find(ledger_id)

    ref = (await client.describe(log)).ref
    return await with_readable_record(client.logs, ref, client.ledgers.environment, look, "the ledgers")


async def deletable_ledgers(client: Inspected, log: str) -> int:
    """Number of ledgers that have left the log's list and are not deleted yet. Raises the same."""

    async def look(ledgers: LedgerList) -> int:
        return (await ledgers.totals()).deletable

    ref = (await client.describe(log)).ref
    return await with_fresh_record(client.logs, ref, client.ledgers.environment, look, "the ledgers")
