"""How a log came to its ledgers: takeovers, rotations, and the pauses between them. Fences nothing, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.core.metadata_keys import TAG_OWNER
from dlog.inspection.inspected import Inspected
from dlog.inspection.ledgers import record_with_ledgers
from dlog.inspection.unsealed import with_own_seals
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, Owner
from ledger.errors import LedgerNotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """A ledger that entered the list, and what brought it there."""

    listed: ListedLedger
    takeover: bool
    """True: its epoch is new. False: its owner rotated."""
    owner_instance: str | None
    """The writer that created it; None if the ledger's metadata does not have it any more."""
    pause_us: int | None
    """From the last append of the ledger before to its first, by the writers' clocks; None if one is not recorded."""
    owner: Owner | None = None
    """Name, host and process of that writer: the record has them of the last owner only."""
    empty_epochs: range = range(0)
    """Takeovers between the event before and this one: their ledgers stayed empty, and are not listed any more."""


async def history(client: Inspected, log: str) -> list[HistoryEvent]:
    """Events of the ledgers that the log lists, oldest first. Ledgers that were trimmed are not listed.

    Raises:
        LogNotFoundError: no such log.
    """
    record, listed_then = await record_with_ledgers(client, log)
    ledgers = await with_own_seals(client, listed_then)
    owners: dict[int, str | None] = {}
    for listed in ledgers:
        if listed.epoch not in owners:
            owners[listed.epoch] = await _owner(client, listed)
    return [
        HistoryEvent(
            listed=listed,
            takeover=previous is None or previous.epoch != listed.epoch,
            owner_instance=owners[listed.epoch],
            pause_us=_pause_us(previous, listed),
            owner=_known_owner(record, owners[listed.epoch]),
            empty_epochs=_empty_epochs(record, previous, listed),
        )
        for previous, listed in zip((None, *ledgers), ledgers, strict=False)
    ]


async def _owner(client: Inspected, listed: ListedLedger) -> str | None:
    try:
        metadata = (await client.ledgers.store.read_ledger(listed.ledger_id)).value
    except LedgerNotFoundError:
        return None
    tag = metadata.custom_value(TAG_OWNER)
    return None if tag is None else tag.decode(errors="replace")


def _known_owner(record: LogMetadata, instance: str | None) -> Owner | None:
    return record.owner if record.owner is not None and record.owner.instance == instance else None


def _empty_epochs(record: LogMetadata, previous: ListedLedger | None, listed: ListedLedger) -> range:
    """Trims drop ledgers from the beginning of the list only, so an epoch missing between two was not trimmed."""
    if previous is not None:
        return range(previous.epoch + 1, listed.epoch)
    untrimmed = record.trim_before == record.trimmed_end == EARLIEST_ID
    return range(1, listed.epoch) if untrimmed else range(0)


def _pause_us(previous: ListedLedger | None, listed: ListedLedger) -> int | None:
    if previous is None or previous.seal is None or listed.seal is None:
        return None
    ended, began = previous.seal.last_append_us, listed.seal.first_append_us
    return max(0, began - ended) if ended and began else None
