"""The tail of a log, and the id at which its last n messages begin. Fences nothing and changes nothing.

Invariant (docs/log-semantics.md#rule-15, #rule-29): the tail is in the first listed ledger that is not sealed.
Nothing in the next one is acknowledged before this one is sealed, so every append that succeeded before the call is
below the tail. All reads here are linearizable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dlog.errors import HistoryPageError
from dlog.format.entry import decode_envelope
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import PassesLoss, is_lost_ledger, passes_loss, with_readable_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, MessageId
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, MetadataFormatError
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle

_ENTRIES_AT_ONCE = 16
"""Number of entries per step when reading backwards: few round trips, little memory."""


OpenLedger = Callable[[LedgerId], Awaitable[ReadHandle]]


def opener(ledgers: LedgerClient, password: bytes) -> OpenLedger:
    """A function that opens the log's ledgers without recovery."""
    return lambda ledger_id: ledgers.open(ledger_id, password)


async def tail_of(
    logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, password: bytes = b""
) -> MessageId:
    """The id after every append that has succeeded so far.

    Raises:
        DataLossError: an unsealed listed ledger does not exist.
        ReadError: too few bookies respond to determine its LAC.
        LogNotFoundError: the log was deleted, or is being deleted.
    """

    async def look(listed: LedgerList) -> MessageId:
        return await _tail_of_record(listed.record, opener(ledgers, password))

    return await with_readable_record(logs, ref, ledgers.environment, look, "the end")


async def is_beyond(
    position: MessageId, tail: MessageId, ledgers: LedgerClient, password: bytes = b""
) -> bool:
    """Whether the position is above the tail, which `tail_of` has determined as `tail`.

    A reader may have been shown more than `tail_of` finds, by a bookie that it did not wait for. So all bookies are
    asked before a position in the tail's ledger counts as above it.

    Raises:
        LedgerNotFoundError: the tail's ledger was deleted.
        ReadError: too few bookies respond to open it.
    """
    if position <= tail or position.ledger_id != tail.ledger_id:
        return position > tail
    handle = await ledgers.open(LedgerId(tail.ledger_id), password)
    try:
        return not await handle.is_proved_readable(position.entry_id - (position.batch_index == 0))
    finally:
        await handle.close()


async def start_of_last(
    count: int,
    tail: MessageId,
    logs: LogMetadataStore,
    ref: LogRef,
    ledgers: LedgerClient,
    password: bytes,
    *,
    accept_loss: bool = False,
) -> MessageId:
    """The id at which the last `count` messages below `tail` begin; the earliest if there are fewer.

    `accept_loss`: a sealed ledger that is lost counts by its seal, ledgers in a page that is lost by what refers to the
    page, and neither is ever begun inside. What is not known to have held a message counts as little as it may, so that
    nothing is left out that can be read: an entry as one message if the ledger is lost and was not counted, as none if
    it is lost itself, and a ledger as one if its page is lost and it was not counted.

    Raises:
        DataLossError: a listed ledger, or an entry of it, does not exist.
        ReadError: too few bookies respond.
        LogNotFoundError: the log was deleted, or is being deleted.
    """

    async def look(listed: LedgerList) -> MessageId:
        passes = passes_loss(logs, listed, ref, accept_loss=accept_loss)
        return await _start_in_list(count, tail, listed, opener(ledgers, password), passes)

    return await with_readable_record(logs, ref, ledgers.environment, look, f"the last {count} messages")


async def _tail_of_record(record: LogMetadata, open_ledger: OpenLedger) -> MessageId:
    tail = EARLIEST_ID
    for listed in record.ledgers:  # the tail is never in a page
        last, sealed = await end_of(listed, open_ledger)
        tail = MessageId(listed.ledger_id, last + 1, 0)
        if not sealed:
            break
    return max(tail, record.trim_before)


async def end_of(listed: ListedLedger, open_ledger: OpenLedger) -> tuple[int, bool]:
    """The last readable entry of a ledger, and whether it is final."""
    if listed.seal is not None:
        return listed.seal.last_entry, True
    handle = await open_ledger(listed.ledger_id)
    await handle.close()
    return handle.last_readable, handle.closed


async def _start_in_list(
    count: int, tail: MessageId, ledger_list: LedgerList, open_ledger: OpenLedger, passes: PassesLoss
) -> MessageId:
    missing = count
    record = ledger_list.record
    first = None
    async for listed in ledger_list.walk_back_past_lost(tail.ledger_id):
        if isinstance(listed, HistoryPageError):
            if listed.last < record.trim_before.ledger_id:
                break  # everything in it was trimmed, as all before it
            if not await passes(listed):
                raise listed
            first = listed.first
            whole = first > record.trim_before.ledger_id
            if whole and listed.messages < missing:
                missing -= listed.messages
                continue
            break
        first = listed.ledger_id
        end = (
            tail.entry_id
            if listed.ledger_id == tail.ledger_id
            else (await end_of(listed, open_ledger))[0] + 1
        )
        whole = listed.ledger_id < tail.ledger_id and listed.ledger_id > record.trim_before.ledger_id
        if whole and listed.seal is not None and 0 <= listed.seal.message_count < missing:
            missing -= listed.seal.message_count
            continue
        try:
            found = await _search(listed.ledger_id, end, missing, record.trim_before, open_ledger, passes)
        except (LedgerNotFoundError, MetadataFormatError) as error:
            if not (is_lost_ledger(error) and await passes(listed)):
                raise
            assert listed.seal is not None, "it goes by that"
            held = listed.seal.message_count
            if held < 0:
                held = listed.seal.last_entry + 1  # or more, but then the range may only begin too early
            found = held if held < missing else MessageId(listed.ledger_id, 0, 0)
        if isinstance(found, MessageId):
            return max(found, record.trim_before)
        missing -= found
        if listed.ledger_id <= record.trim_before.ledger_id:
            break
    return tail if first is None else max(record.trim_before, MessageId(first, 0, 0))


async def _search(
    ledger_id: LedgerId,
    end: int,
    count: int,
    trim_before: MessageId,
    open_ledger: OpenLedger,
    passes: PassesLoss,
) -> MessageId | int:
    """The id at which the last `count` messages below entry `end` begin; if there are fewer, their number."""
    if end == 0:
        return 0
    handle = await open_ledger(ledger_id)
    handle.confirm(end - 1)  # this handle may have asked other bookies, which know less
    try:
        return await _count_back(handle, end, count, trim_before, passes)
    finally:
        await handle.close()


async def _count_back(
    handle: ReadHandle, end: int, count: int, trim_before: MessageId, passes: PassesLoss
) -> MessageId | int:
    floor = trim_before.entry_id if trim_before.ledger_id == handle.ledger_id else 0
    seen = 0
    while end > floor:
        first = max(floor, end - _ENTRIES_AT_ONCE)
        for entry in reversed(await _left_of(handle, first, end - 1, passes)):
            held = decode_envelope(entry.payload)[0].count
            if seen + held >= count:
                found = MessageId(handle.ledger_id, entry.entry_id, seen + held - count)
                return max(found, trim_before)
            seen += held
        end = first
    return seen


async def _left_of(handle: ReadHandle, first: int, last: int, passes: PassesLoss) -> list[Entry]:
    """The entries from `first` to `last` without those that are lost."""
    if first > last:
        return []
    try:
        return await handle.read(first, last)
    except EntryNotFoundError as error:
        if not await passes(error):
            raise
        before = await _left_of(handle, first, error.entry_id - 1, passes)
        return before + await _left_of(handle, error.entry_id + 1, last, passes)
