"""How a log came to its ledgers: takeovers, rotations, and the pauses between them. Fences nothing, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.core.metadata_keys import TAG_OWNER, owner_of
from dlog.format.entry import decode_envelope
from dlog.inspection.inspected import Inspected
from dlog.inspection.ledgers import record_with_ledgers
from dlog.inspection.unsealed import with_own_seals
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, LogState, Owner
from dlog.read.tail import opener
from ledger.errors import (
    CorruptionError,
    LedgerNotFoundError,
    MetadataFormatError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """A ledger that entered the list, or the end of a history without one, and what brought it there."""

    listed: ListedLedger | None
    """None: of the log's present epoch no ledger is listed. It was sealed, or a sink has taken it over."""
    epoch: int
    takeover: bool
    """True: its epoch is new. False: its owner rotated."""
    seal: bool = False
    """The takeover sealed the log."""
    owner_instance: str | None
    """The writer that created it; None if the ledger's metadata does not have it any more."""
    pause_us: int | None
    """From the last append of the ledger before to its first, by the writers' clocks; None if one is not recorded."""
    owner: Owner | None = None
    """Name, host and process of that writer, as its ledger has them: ledgers of earlier builds have none.

    Its start is known of the log's last owner only, and 0 of the others.
    """
    empty_epochs: range = range(0)
    """Takeovers between the event before and this one: their ledgers stayed empty, and are not listed any more."""


@dataclass(frozen=True, slots=True)
class _Creator:
    """Who has created the ledgers of an epoch."""

    instance: str | None
    owner: Owner | None


async def history(client: Inspected, log: str) -> list[HistoryEvent]:
    """Events of the ledgers that the log lists, oldest first. Ledgers that were trimmed are not listed.

    Raises:
        LogNotFoundError: no such log.
    """
    record, listed_then = await record_with_ledgers(client, log)
    ledgers = await with_own_seals(client, listed_then)
    creators: dict[int, _Creator] = {}
    for listed in ledgers:
        if listed.epoch not in creators:
            creators[listed.epoch] = await _creator(client, record, listed)
    events = [
        HistoryEvent(
            listed=listed,
            epoch=listed.epoch,
            takeover=previous is None or previous.epoch != listed.epoch,
            owner_instance=creators[listed.epoch].instance,
            pause_us=await _pause_us(client, previous, listed),
            owner=creators[listed.epoch].owner,
            empty_epochs=_empty_epochs(record, previous, listed.epoch),
        )
        for previous, listed in zip((None, *ledgers), ledgers, strict=False)
    ]
    last = ledgers[-1] if ledgers else None
    if record.owner is not None and (last is None or last.epoch < record.epoch):
        events.append(_without_ledger(record, record.owner, last))
    return events


async def _creator(client: Inspected, record: LogMetadata, listed: ListedLedger) -> _Creator:
    try:
        metadata = (await client.ledgers.store.read_ledger(listed.ledger_id)).value
    except (LedgerNotFoundError, MetadataFormatError):
        return _Creator(None, None)  # lost: the rest of the history is known from the record
    tag = metadata.custom_value(TAG_OWNER)
    if tag is None:
        return _Creator(None, None)
    instance = tag.decode(errors="replace")
    if record.owner is not None and record.owner.instance == instance:
        return _Creator(instance, record.owner)
    return _Creator(instance, owner_of(metadata.custom))


def _without_ledger(record: LogMetadata, owner: Owner, last: ListedLedger | None) -> HistoryEvent:
    return HistoryEvent(
        listed=None,
        epoch=record.epoch,
        takeover=True,
        seal=record.state is LogState.SEALED,
        owner_instance=owner.instance,
        pause_us=None,
        owner=owner,
        empty_epochs=_empty_epochs(record, last, record.epoch),
    )


def _empty_epochs(record: LogMetadata, previous: ListedLedger | None, epoch: int) -> range:
    """Trims drop ledgers from the beginning of the list only, so an epoch missing between two was not trimmed."""
    if previous is not None:
        return range(previous.epoch + 1, epoch)
    untrimmed = record.trim_before == record.trimmed_end == EARLIEST_ID
    return range(1, epoch) if untrimmed else range(0)


async def _pause_us(client: Inspected, previous: ListedLedger | None, listed: ListedLedger) -> int | None:
    if previous is None or previous.seal is None or not previous.seal.last_append_us:
        return None
    ended = previous.seal.last_append_us
    began = await _began_us(client, listed) if listed.seal is None else listed.seal.first_append_us
    return max(0, began - ended) if began else None


async def _began_us(client: Inspected, listed: ListedLedger) -> int:
    """Time of the first append to an open ledger, as far as it is readable; 0 if it is unknown."""
    try:
        handle = await opener(client.ledgers, client.config.password)(listed.ledger_id)
    except (NotFoundError, CorruptionError, UnavailableError, UnauthorizedError):
        return 0
    try:
        if handle.last_readable < 0:
            return 0
        [entry] = await handle.read(0, 0)
        return decode_envelope(entry.payload)[0].append_time_us
    except (NotFoundError, CorruptionError, UnavailableError):
        return 0
    finally:
        await handle.close()
