"""The outcome of an append that ended indeterminate (docs/log-semantics.md#rule-8).

It is decided by entry, since a batch is stored completely or not at all; whether the batch has the message is decided
by the entry's own count. Once it is not UNDECIDED it never changes, except that a committed message may be trimmed
later.

Pitfall: docs/pitfalls.md#timeout-as-failure.
"""

from __future__ import annotations

from enum import StrEnum

from dlog.errors import LogNotFoundError, UnknownPositionError
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import ListedLedger, LogMetadata, LogState, MessageId
from dlog.read.entry_count import message_count
from dlog.read.tail import OpenLedger, end_of, opener
from ledger.client import LedgerClient


class Resolution(StrEnum):
    """The outcome of an append."""

    COMMITTED = "committed"
    ABSENT = "absent"
    TRIMMED = "trimmed"
    """Below the trim position: whether it was committed is no longer known."""
    UNDECIDED = "undecided"
    """In flight, or its ledger is not sealed yet; opening a writer decides it."""


async def resolve(
    logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, message_id: MessageId, password: bytes
) -> Resolution:
    """The outcome of the append with this id. Fences nothing.

    Raises:
        UnknownPositionError: the id is above the log's last ledger.
        LogNotFoundError: the log is being deleted.
        HistoryPageError: the part of the ledger list that has the id is lost.
        DataLossError: the listed ledger of the id, or the entry that is confirmed in it, is lost.
        EntryFormatError, DigestMismatchError: the entry of an id with a batch index above 0 is damaged.
        ReadError: too few bookies respond.
    """

    async def look(ledger_list: LedgerList) -> Resolution:
        record = ledger_list.record
        if record.state is LogState.DELETING:
            raise LogNotFoundError(
                f"log {ref} is being deleted, so the outcome of an append can no longer be determined",
                log=str(ref),
            )
        if min(message_id) < 0:
            return Resolution.ABSENT  # no append gets such an id
        if message_id < record.trim_before:
            return Resolution.TRIMMED  # whatever the list shows, part of which may be lost
        listed = await ledger_list.find(message_id.ledger_id)
        if listed is None:
            return _unlisted(record, message_id)
        return await _in_ledger(listed, message_id, opener(ledgers, password))

    return await with_fresh_record(
        logs, ref, ledgers.environment, look, f"the outcome of message {message_id}"
    )


async def _in_ledger(listed: ListedLedger, message_id: MessageId, open_ledger: OpenLedger) -> Resolution:
    last_entry, sealed = await end_of(listed, open_ledger)
    if message_id.entry_id > last_entry:
        return Resolution.ABSENT if sealed else Resolution.UNDECIDED
    if message_id.batch_index == 0:
        return Resolution.COMMITTED  # no entry is without messages
    handle = await open_ledger(listed.ledger_id)
    handle.confirm(last_entry)  # this handle may have asked other bookies, which know less
    try:
        count = await message_count(handle, message_id.entry_id)
    finally:
        await handle.close()
    return Resolution.COMMITTED if message_id.batch_index < count else Resolution.ABSENT


def _unlisted(record: LogMetadata, message_id: MessageId) -> Resolution:
    last = record.last_ledger_id
    if message_id.ledger_id > last:
        end = "the log has no ledger yet" if last < 0 else f"the last ledger of the log is {last}"
        raise UnknownPositionError(
            f"message {message_id} is not of this log, since {end}: pass an id that an append to this log returned, or "
            "that its AppendIndeterminateError has",
            requested=message_id,
            last=last,
        )
    return Resolution.ABSENT  # its ledger was sealed empty, and left the list for that
