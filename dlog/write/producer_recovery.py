"""Reads what each producer has in a log, from the end of its newest ledger that has entries.

Source: docs/log-semantics.md#rule-36.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from dlog.errors import DataLossError, EntryFormatError
from dlog.format.entry import ELSEWHERE, Envelope, decode_envelope
from dlog.format.producer_snapshot import SEQUENCE_MAX, LastMessage, decode_snapshot, sequence_too_large
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import is_lost_ledger
from dlog.model import MessageId
from ledger.client import LedgerClient
from ledger.errors import LedgerNotFoundError, MetadataFormatError
from ledger.model import LedgerId
from ledger.reading.read_handle import ReadHandle

Producers = dict[bytes, LastMessage]
_READ_ENTRIES_MAX = 1000
_READ_BYTES = 1 << 20


async def find_producers(
    ledgers: LedgerClient,
    listed: LedgerList,
    password: bytes,
    *,
    given_up: Collection[LedgerId] = (),
    last_envelopes: Mapping[LedgerId, Envelope] = MappingProxyType({}),
) -> Producers:
    """The last message of each producer at the end of the log's sealed ledgers.

    `given_up`: ledgers whose loss is accepted: one of them that does not exist is passed over.
    `last_envelopes`: of the last entries of some of them. A log without producers is then not read at all.

    Raises:
        LedgerNotFoundError, EntryNotFoundError: what is needed does not exist.
        ReadError, MetadataUnavailableError: it cannot be read now.
        EntryFormatError: an entry cannot be decoded.
        HistoryPageError: a part of the ledger list is lost.
        DataLossError: it was trimmed while writers could not read it.
    """
    newer = None
    async for one in listed.walk_back():
        if one.seal is None or one.seal.last_entry < 0:
            continue
        last = last_envelopes.get(one.ledger_id)
        if last is not None and last.producers is None:
            return {}
        try:
            handle = await ledgers.open(one.ledger_id, password)
        except (LedgerNotFoundError, MetadataFormatError) as error:
            # One that is given up and exists is not lost: readers see its messages, so its producers count.
            if one.ledger_id in given_up and is_lost_ledger(error):
                continue
            raise
        try:
            producers = await read_producers(handle)
        finally:
            await handle.close()
        if producers is not None:
            return producers
        newer = one.ledger_id
    if newer is None:
        return {}
    raise DataLossError(
        f"what the producers of the log have appended was in ledgers before {newer} and was trimmed while it could not "
        "be read: it is unknown which messages would be appended twice, so continue in a new log",
        ledger_id=newer,
    )


async def read_producers(handle: ReadHandle) -> Producers | None:
    """The last message of each producer at the end of a closed ledger that has entries; None: as before the ledger."""
    end = handle.last_readable
    [entry] = await handle.read(end, end)
    place = decode_envelope(entry.payload)[0].producers
    if place is None:
        return {}
    if place.distance == ELSEWHERE:
        return None
    at = first = end - place.distance
    if first < 0:
        raise _damaged(handle.ledger_id, first)
    producers: Producers = {}
    while at <= end:
        entries = await handle.read_batch(
            at, max_entries=min(_READ_ENTRIES_MAX, end - at + 1), max_bytes=_READ_BYTES
        )
        for entry in entries:
            envelope, _ = decode_envelope(entry.payload)
            if entry.entry_id == first:
                producers = _snapshot(handle.ledger_id, first, envelope)
            if envelope.producer is not None:
                sequence = envelope.producer.first_sequence + envelope.count - 1
                if sequence > SEQUENCE_MAX:  # no snapshot can hold it
                    raise sequence_too_large(handle.ledger_id, entry.entry_id, sequence)
                last = LastMessage(sequence, MessageId(handle.ledger_id, entry.entry_id, envelope.count - 1))
                producers[envelope.producer.producer_id] = last
        at += len(entries)
    return producers


def _snapshot(ledger_id: int, entry_id: int, envelope: Envelope) -> Producers:
    place = envelope.producers
    if place is None or place.snapshot is None:
        raise _damaged(ledger_id, entry_id)
    return decode_snapshot(place.snapshot)


def _damaged(ledger_id: int, entry_id: int) -> EntryFormatError:
    return EntryFormatError(
        f"ledger {ledger_id} should have a snapshot of the log's producers in entry {entry_id} and has none there: it "
        "is damaged"
    )
