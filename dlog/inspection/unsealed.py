"""Ledgers whose seals the log's record does not have: the open one, and those closed since the record's last change.

Fences nothing and writes nothing. The record learns of a seal with its next change; people look before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlog.inspection.inspected import Inspected
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, MessageId
from dlog.read.backlog import NOTHING, Amount, held
from dlog.read.tail import OpenLedger, opener
from dlog.write.ledger_recovery import end_of_closed
from ledger.errors import (
    CorruptionError,
    EntryNotFoundError,
    LedgerNotFoundError,
    ReadError,
    UnauthorizedError,
    UnavailableError,
)
from ledger.reading.read_handle import ReadHandle


@dataclass(frozen=True, slots=True)
class NewestLedgers:
    """The ledgers of a record as they are now. What bookies did not answer is None."""

    record: LogMetadata
    """With the seals that closed ledgers have by their own metadata."""
    ends: dict[int, int]
    """Number of readable entries of each ledger in the record, up to the tail."""
    tail: MessageId | None
    open: Amount | None
    """What is readable in the open ledger."""


async def newest_ledgers(record: LogMetadata, open_ledger: OpenLedger) -> NewestLedgers:
    """Ask for what the record does not say: ends of closed ledgers, and what is readable in the open one.

    Raises:
        LedgerNotFoundError: a listed ledger does not exist.
    """
    ledgers = list(record.ledgers)
    ends: dict[int, int] = {}
    of_open: Amount | None = NOTHING
    known = True
    for at, listed in enumerate(ledgers):
        if listed.seal is None:
            try:
                handle = await open_ledger(listed.ledger_id)
            except ReadError:
                known, of_open = False, None
                break
            try:
                ends[listed.ledger_id] = handle.last_readable + 1
                if not handle.closed:
                    # Nothing in a ledger after it is confirmed before it is closed.
                    of_open = await _held(handle)
                    break
                ledgers[at] = replace(listed, seal=(await end_of_closed(handle)).facts)
            finally:
                await handle.close()
        else:
            ends[listed.ledger_id] = listed.seal.last_entry + 1
    tail = max(record.trim_before, MessageId(*max(ends.items(), default=EARLIEST_ID[:2])))
    return NewestLedgers(replace(record, ledgers=tuple(ledgers)), ends, tail if known else None, of_open)


async def _held(handle: ReadHandle) -> Amount | None:
    try:
        return await held(handle)
    except (UnavailableError, CorruptionError, EntryNotFoundError):
        return None


async def with_own_seals(client: Inspected, ledgers: Sequence[ListedLedger]) -> list[ListedLedger]:
    """The same, those that are closed by their own metadata with their seals, as far as it can be read.

    Asks no bookie about an open ledger.
    """
    open_ledger = opener(client.ledgers, client.config.password)
    found = list(ledgers)
    for at, listed in enumerate(found):
        if listed.seal is not None:
            continue
        try:
            if not (await client.ledgers.store.read_ledger(listed.ledger_id)).value.closed:
                continue
            handle = await open_ledger(listed.ledger_id)
        except (LedgerNotFoundError, CorruptionError, ReadError, UnauthorizedError):
            continue
        try:
            found[at] = replace(listed, seal=(await end_of_closed(handle)).facts)
        finally:
            await handle.close()
    return found
