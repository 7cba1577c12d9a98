"""Distance of a position from the tail of its log."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import MessageId
from dlog.read.tail import OpenLedger, end_of, opener
from ledger.client import LedgerClient


@dataclass(frozen=True, slots=True)
class Lag:
    """Distance from the tail. Of a reader: readable entries of its ledger that it has not returned, and listed ledgers
    after that one. Of a cursor: readable entries of all of these ledgers."""

    entries: int
    ledgers: int


async def lag_behind(
    position: MessageId, logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, password: bytes
) -> Lag:
    """How many entries are readable from the position on, and how many ledgers are listed after its own.

    Costs what the ledgers from the position on cost to walk.

    Raises:
        DataLossError: an unsealed listed ledger does not exist.
        ReadError: too few bookies respond.
        LogNotFoundError: the log was deleted.
    """

    async def look(listed: LedgerList) -> Lag:
        return await _lag_in_list(position, listed, opener(ledgers, password))

    return await with_fresh_record(logs, ref, ledgers.environment, look, "the end")


async def _lag_in_list(position: MessageId, ledger_list: LedgerList, open_ledger: OpenLedger) -> Lag:
    entries = ledgers_after = 0
    sealed = True
    async for listed in ledger_list.walk(position.ledger_id):
        ledgers_after += listed.ledger_id > position.ledger_id
        if not sealed:
            continue  # nothing in it is confirmed before the one before it is sealed
        last, sealed = await end_of(listed, open_ledger)
        first = position.entry_id if listed.ledger_id == position.ledger_id else 0
        entries += max(0, last + 1 - first)
    return Lag(entries, ledgers_after)
