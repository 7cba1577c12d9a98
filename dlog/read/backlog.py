"""Distance of a position from the tail of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dlog.format.entry import decode_envelope
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_readable_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import ListedLedger, MessageId
from dlog.read.tail import OpenLedger, opener
from ledger.client import LedgerClient
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle


@dataclass(frozen=True, slots=True)
class Lag:
    """Distance from the tail: what is readable from a position on, in its ledger and in those after it.
    `Reader.lag`: as far as the reader knows, without reading anything."""

    entries: int
    ledgers: int
    """Listed after the position's ledger."""
    messages: int | None = None
    """None if not measured, or if an entry of an earlier release does not say how many messages precede it."""
    bytes: int | None = None
    """Of the entries, as stored: compressed, with their envelopes. None if not measured."""


class Amount(NamedTuple):
    """What a ledger, or a part of it, holds."""

    entries: int
    messages: int | None
    """None if an entry does not say how many messages precede it."""
    bytes: int


NOTHING = Amount(0, 0, 0)


async def lag_behind(
    position: MessageId, logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, password: bytes
) -> Lag:
    """What is readable from the position on, or from the earliest message if the position was trimmed.

    Costs what the ledgers from the position on cost to walk, and reading two entries.

    Raises:
        DataLossError: an unsealed listed ledger, or one of the two entries, does not exist.
        HistoryPageError: a page of the list from the position on is lost.
        ReadError: too few bookies respond.
        LogNotFoundError: the log was deleted, or is being deleted.
        EntryFormatError: one of the two entries is damaged.
    """

    async def look(listed: LedgerList) -> Lag:
        start = max(position, listed.record.trim_before)
        return await _lag_in_list(start, listed, opener(ledgers, password))

    return await with_readable_record(logs, ref, ledgers.environment, look, "the distance to the end")


async def _lag_in_list(position: MessageId, ledger_list: LedgerList, open_ledger: OpenLedger) -> Lag:
    entries = ledgers_after = byte_count = 0
    messages: int | None = 0
    is_final = True
    async for listed in ledger_list.walk(position.ledger_id):
        ledgers_after += listed.ledger_id > position.ledger_id
        if not is_final:
            continue  # nothing in it is confirmed before the one before it is sealed
        held, is_final = await _held(listed, open_ledger)
        passed = NOTHING
        if listed.ledger_id == position.ledger_id:
            passed = await _passed(position, held, open_ledger)
        entries += held.entries - passed.entries
        byte_count += max(held.bytes - passed.bytes, 0)  # the seal's bytes may be too few: SealFacts
        if messages is None or held.messages is None or passed.messages is None:
            messages = None
        else:
            messages += held.messages - passed.messages
    return Lag(entries, ledgers_after, messages, byte_count)


async def _held(listed: ListedLedger, open_ledger: OpenLedger) -> tuple[Amount, bool]:
    """What of the ledger is readable, and whether that is final."""
    if (seal := listed.seal) is not None:
        counted = seal.message_count if seal.message_count >= 0 else None
        return Amount(seal.last_entry + 1, counted, seal.byte_count), True
    handle = await open_ledger(listed.ledger_id)
    try:
        return await held(handle), handle.closed
    finally:
        await handle.close()


async def held(handle: ReadHandle) -> Amount:
    """What is readable through the handle, by its last entry.

    Raises:
        ReadError: too few bookies respond.
        EntryNotFoundError: the entry does not exist.
        EntryFormatError: it is damaged.
    """
    last = handle.last_readable
    if last < 0:
        return NOTHING
    [entry] = await handle.read(last, last)
    envelope = decode_envelope(entry.payload)[0]
    before = envelope.messages_before
    return Amount(last + 1, None if before is None else before + envelope.count, entry.length)


async def _passed(position: MessageId, held: Amount, open_ledger: OpenLedger) -> Amount:
    """What is before the position in its ledger, which holds `held`. An entry that is passed in part counts as not."""
    if position.entry_id >= held.entries:
        return held
    if position.entry_id == position.batch_index == 0:
        return NOTHING
    handle = await open_ledger(LedgerId(position.ledger_id))
    handle.confirm(held.entries - 1)  # this handle may have asked other bookies, which know less
    try:
        [entry] = await handle.read(position.entry_id, position.entry_id)
    finally:
        await handle.close()
    return Amount(
        position.entry_id, _messages_before(entry, position.batch_index), entry.length - len(entry.payload)
    )


def _messages_before(entry: Entry, batch_index: int) -> int | None:
    envelope = decode_envelope(entry.payload)[0]
    before = envelope.messages_before
    return None if before is None else before + min(batch_index, envelope.count)
