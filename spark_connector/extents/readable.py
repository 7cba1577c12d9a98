"""What of a log can be read now, ledger by ledger. Reads metadata and last add confirmed; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlog.errors import LogNotFoundError
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, LogState, MessageId
from dlog.read.tail import OpenLedger, opener
from ledger.client import LedgerClient
from ledger.reading.read_handle import ReadHandle
from spark_connector.extents.partitions import Extent

_LEDGERS_TOGETHER = 1024
"""As many as a reader takes from a list in one call."""


@dataclass(frozen=True, slots=True)
class Readable:
    """What of a log can be read, as of one record."""

    record: LogMetadata
    extents: Sequence[Extent] = ()
    """Of ledgers with entries, in list order."""
    complete_below: int = 0
    """Of listed ledgers below this id, from the first one that was asked for on, the extents have every entry there
    will ever be. The record has the seal of such a ledger only from the writer's next change of it on."""


async def readable_extents(
    logs: LogMetadataStore,
    ref: LogRef,
    ledgers: LedgerClient,
    start: MessageId = EARLIEST_ID,
    confirmed: MessageId = EARLIEST_ID,
    password: bytes = b"",
) -> Readable:
    """A fresh record, and the readable part of each of its ledgers from that of `start` on, up to the tail.

    An earlier look has found that what is below `confirmed` is readable; this one may ask bookies that know less.

    Raises:
        DataLossError: a listed ledger does not exist.
        LogNotFoundError: the log was deleted, or is being deleted.
    """

    async def look(listed: LedgerList) -> Readable:
        _check_not_deleting(ref, listed.record)
        return await _readable(ref.name.name, opener(ledgers, password), listed, start.ledger_id, confirmed)

    return await with_fresh_record(logs, ref, ledgers.environment, look, "the end")


async def tail_of(
    logs: LogMetadataStore, ref: LogRef, ledgers: LedgerClient, password: bytes = b""
) -> tuple[LogMetadata, MessageId]:
    """A fresh record, and the id after the last message that can be read, or after those that were trimmed.

    Reads the same however many ledgers the log has.

    Raises:
        DataLossError, LogNotFoundError: as of `readable_extents`.
    """

    open_ledger = opener(ledgers, password)

    async def look(listed: LedgerList) -> tuple[LogMetadata, MessageId]:
        record = listed.record
        _check_not_deleting(ref, record)
        newest = await listed.newest_kept() if record.ledgers else 0
        extents = (await _readable(ref.name.name, open_ledger, listed, newest, EARLIEST_ID)).extents
        tail = extents[-1].end if extents else EARLIEST_ID
        return record, max(tail, record.trim_before)

    return await with_fresh_record(logs, ref, ledgers.environment, look, "the end")


def _check_not_deleting(ref: LogRef, record: LogMetadata) -> None:
    # Its list is empty, which must not look as if the log were.
    if record.state is LogState.DELETING:
        raise LogNotFoundError(
            f"log {ref} is being deleted and can no longer be read: leave it out",
            log=str(ref),
        )


async def _readable(
    log: str, open_ledger: OpenLedger, ledger_list: LedgerList, first_id: int, confirmed: MessageId
) -> Readable:
    """Ends at the first ledger that is not sealed. Since it was read here, its writer may have added to it, sealed it
    and continued in the next one; entries of the next one must not be returned without those.
    """
    extents: list[Extent] = []
    complete_below = 0
    async for listed in ledger_list.walk(first_id, _LEDGERS_TOGETHER):
        extent, sealed = await _extent(log, open_ledger, listed, confirmed)
        if extent.entries:
            extents.append(extent)
        if not sealed:
            break
        complete_below = listed.ledger_id + 1
    return Readable(ledger_list.record, extents, complete_below)


async def _extent(
    log: str, open_ledger: OpenLedger, listed: ListedLedger, confirmed: MessageId
) -> tuple[Extent, bool]:
    facts = listed.seal
    if facts is not None:
        counted = facts.message_count if facts.message_count >= 0 else None
        return _whole(log, listed, facts.last_entry, facts.byte_count, counted), True
    handle = await open_ledger(listed.ledger_id)
    try:
        if listed.ledger_id == confirmed.ledger_id:
            handle.confirm(confirmed.entry_id if confirmed.batch_index else confirmed.entry_id - 1)
        last = handle.last_readable
        return _whole(log, listed, last, await _length(handle, last), None), handle.closed
    finally:
        await handle.close()


async def _length(handle: ReadHandle, last_entry: int) -> int:
    """Payload bytes of the ledger up to `last_entry`, from the header of that entry."""
    if handle.closed or last_entry < 0:
        return max(0, handle.metadata.length)
    (entry,) = await handle.read(last_entry, last_entry)
    return entry.length


def _whole(log: str, listed: ListedLedger, last_entry: int, byte_count: int, messages: int | None) -> Extent:
    return Extent(
        log=log,
        ledger_id=listed.ledger_id,
        first_entry=0,
        last_entry=last_entry,
        byte_count=byte_count,
        messages=messages,
    )
