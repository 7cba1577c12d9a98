"""Finds the first message that was appended at or after a time. Fences nothing and changes nothing.

Append times are the writers' clocks, and each writer continues at or after the last time that it found in the log, so
they never decrease along it (docs/log-semantics.md#rule-31). Ledgers are passed over by the times in their seals; in
the ledger that is left, one entry is read for each step of a bisection.
"""

from __future__ import annotations

from dlog.format.entry import decode_envelope
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_readable_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, MessageId
from dlog.read.tail import OpenLedger, end_of, opener
from ledger.client import LedgerClient
from ledger.reading.read_handle import ReadHandle


async def first_at_or_after(
    time_us: int, logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, password: bytes = b""
) -> MessageId:
    """The id of the first message appended at or after `time_us`; the tail if there is none yet.

    Raises:
        DataLossError: a listed ledger, or an entry that had to be read, does not exist.
        ReadError: too few bookies respond.
        LogNotFoundError: the log was deleted, or is being deleted.

    Source: docs/log-semantics.md#rule-31.
    """

    async def look(listed: LedgerList) -> MessageId:
        return max(listed.record.trim_before, await _in_list(time_us, listed, opener(ledgers, password)))

    return await with_readable_record(logs, ref, ledgers.environment, look, "the position of a time")


async def _in_list(time_us: int, ledger_list: LedgerList, open_ledger: OpenLedger) -> MessageId:
    if ledger_list.tail is None:
        return EARLIEST_ID
    listed = await ledger_list.from_time(time_us)
    while listed is not None:
        last, sealed = await end_of(listed, open_ledger)
        found = await _in_ledger(time_us, listed, last, open_ledger) if last >= 0 else 0
        if found <= last or not sealed:
            return MessageId(listed.ledger_id, found, 0)
        listed = await ledger_list.from_time(time_us, listed.ledger_id + 1)
    last, _ = await end_of(ledger_list.tail, open_ledger)
    return MessageId(ledger_list.tail.ledger_id, last + 1, 0)


async def _in_ledger(time_us: int, listed: ListedLedger, last: int, open_ledger: OpenLedger) -> int:
    """The first entry appended at or after the time; last + 1 if all are older."""
    handle = await open_ledger(listed.ledger_id)
    handle.confirm(last)  # this handle may have asked other bookies, which know less
    try:
        low, high = 0, last + 1
        while low < high:
            middle = (low + high) // 2
            if await _append_time_us(handle, middle) < time_us:
                low = middle + 1
            else:
                high = middle
        return low
    finally:
        await handle.close()


async def _append_time_us(handle: ReadHandle, entry_id: int) -> int:
    [entry] = await handle.read(entry_id, entry_id)
    return decode_envelope(entry.payload)[0].append_time_us
