"""Finds the first message that was appended at or after a time. Fences nothing and changes nothing.

Append times are the writers' clocks, and each writer continues at or after the last time that it found in the log, so
they never decrease along it (docs/log-semantics.md#rule-31). Ledgers are passed over by the times in their seals; in
the ledger that is left, one entry is read for each step of a bisection.
"""

from __future__ import annotations

from dlog.errors import HistoryPageError
from dlog.format.entry import decode_envelope
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import PassesLoss, is_lost_ledger, passes_loss, with_readable_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, MessageId
from dlog.read.tail import OpenLedger, end_of, opener
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, MetadataFormatError
from ledger.reading.read_handle import ReadHandle


async def first_at_or_after(
    time_us: int,
    logs: LogMetadataStore,
    ref: LogRef,
    ledgers: LedgerClient,
    password: bytes = b"",
    *,
    accept_loss: bool = False,
    is_end: bool = False,
) -> MessageId:
    """The id of the first message appended at or after `time_us`; the tail if there is none yet.

    `accept_loss`: if that message may be in entries, sealed ledgers or pages of the list that are lost, the id is where
    the first of them begins, with `is_end` what is after them. So a range between two such ids has every message that
    may be in it, and the gaps.

    Raises:
        DataLossError: a listed ledger, or an entry that had to be read, does not exist.
        ReadError: too few bookies respond.
        LogNotFoundError: the log was deleted, or is being deleted.

    Source: docs/log-semantics.md#rule-31.
    """

    async def look(listed: LedgerList) -> MessageId:
        passes = passes_loss(logs, listed, ref, accept_loss=accept_loss)
        start, end = await _in_list(time_us, listed, opener(ledgers, password), passes)
        return max(listed.record.trim_before, end if is_end else start)

    return await with_readable_record(logs, ref, ledgers.environment, look, "the position of a time")


async def _in_list(
    time_us: int, ledger_list: LedgerList, open_ledger: OpenLedger, passes: PassesLoss
) -> tuple[MessageId, MessageId]:
    """Twice the id of the message; if that may be in what is lost, where that begins and what is after it."""
    if ledger_list.tail is None:
        return EARLIEST_ID, EARLIEST_ID
    lost = None
    # Ledgers below the trim position may still be listed, in a page that is lost: nothing of them is visible.
    start, is_after_lost = ledger_list.record.trim_before.ledger_id, False
    while True:
        try:
            if is_after_lost:
                # Not passed over by its seal: it shows whether everything that is lost is older.
                listed = await ledger_list.at_or_after(start)
            else:
                listed = await ledger_list.from_time(time_us, start)
        except HistoryPageError as error:
            if not await passes(error):
                raise
            lost = lost or MessageId(error.first, 0, 0)
            start, is_after_lost = error.last + 1, True
            continue
        if listed is None:
            break
        start, is_after_lost = listed.ledger_id + 1, False
        last, sealed = await end_of(listed, open_ledger)
        try:
            first, after = await _in_ledger(time_us, listed, last, open_ledger, passes)
        except (LedgerNotFoundError, MetadataFormatError) as error:
            if not (is_lost_ledger(error) and await passes(listed)):
                raise
            lost = lost or MessageId(listed.ledger_id, 0, 0)
            is_after_lost = True
            continue
        if first > 0:
            lost = None  # what is before this one is older
        if first < after:
            lost, is_after_lost = lost or MessageId(listed.ledger_id, first, 0), True
        if after <= last or not sealed:
            end = MessageId(listed.ledger_id, after, 0)
            return lost or end, end
    last, _ = await end_of(ledger_list.tail, open_ledger)
    end = MessageId(ledger_list.tail.ledger_id, last + 1, 0)
    return lost or end, end


async def _in_ledger(
    time_us: int, listed: ListedLedger, last: int, open_ledger: OpenLedger, passes: PassesLoss
) -> tuple[int, int]:
    """Twice the first entry appended at or after the time, `last + 1` if all are older.

    If entries before it are lost and may be it, where they begin and what is after them.
    """
    if last < 0:
        return 0, 0
    handle = await open_ledger(listed.ledger_id)
    handle.confirm(last)  # this handle may have asked other bookies, which know less
    try:
        low, high, after = 0, last + 1, last + 1
        while low < high:  # what is below `low` is older, and all from `high` to before `after` is lost
            middle = (low + high) // 2
            known, append_time_us = await _next_known(handle, middle, high, passes)
            if append_time_us is None:
                high = middle
            elif append_time_us < time_us:
                low = known + 1
            else:
                high, after = middle, known
        return low, after
    finally:
        await handle.close()


async def _next_known(handle: ReadHandle, first: int, end: int, passes: PassesLoss) -> tuple[int, int | None]:
    """The first entry from `first` on that is not lost, and its time; `end` and None if all before that are."""
    for entry_id in range(first, end):
        try:
            return entry_id, await _append_time_us(handle, entry_id)
        except EntryNotFoundError as error:
            if not await passes(error):
                raise
    return end, None


async def _append_time_us(handle: ReadHandle, entry_id: int) -> int:
    [entry] = await handle.read(entry_id, entry_id)
    return decode_envelope(entry.payload)[0].append_time_us
