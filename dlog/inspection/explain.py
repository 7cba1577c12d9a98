"""Where a message is: its outcome, its ledger, its entry and each copy of it. Fences nothing and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlog.core.metadata_keys import TAG_OWNER
from dlog.inspection.inspected import Inspected
from dlog.inspection.ledgers import listed_ledger
from dlog.inspection.verify import loss_of_ledger
from dlog.metadata.fresh_record import is_lost_ledger
from dlog.model import ListedLedger, Message, MessageId
from dlog.read.batch import MessageBatch
from dlog.read.resolution import Resolution
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, MetadataFormatError
from ledger.inspection.copies import Copies
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import EntryId, LedgerId, LedgerMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`listed`, `metadata`, `copies` and `message` are None where there is nothing of the kind."""

    message_id: MessageId
    resolution: Resolution
    trim_before: MessageId
    listed: ListedLedger | None = None
    metadata: LedgerMetadata | None = None
    last_readable: int = -1
    copies: Copies | None = None
    """What each bookie of the entry's write set has."""
    batch: int | None = None
    """Number of messages in the entry."""
    producer_id: bytes | None = None
    """The producer that has appended the entry."""
    sequence: int | None = None
    """The producer's sequence of the message."""
    message: Message | None = None
    """None also if the entry has fewer messages."""

    @property
    def owner_instance(self) -> str | None:
        """The writer that created the ledger."""
        tag = None if self.metadata is None else self.metadata.custom_value(TAG_OWNER)
        return None if tag is None else tag.decode(errors="replace")


async def explain(client: Inspected, log: str, message_id: MessageId) -> Explanation:
    """Determine what became of the message, and where its copies are.

    Raises:
        LogNotFoundError: no such log, or it is being deleted.
        UnknownPositionError: the id is above every ledger of the log.
        DataLossError: the listed ledger of the id does not exist, or its metadata is damaged.
        ReadError, EntryNotFoundError, DataLossError: the entry is confirmed, and no copy can be read.
        EntryFormatError: the entry cannot be decoded.
    """
    resolution = await client.resolve(log, message_id)
    record = (await client.describe(log)).record
    listed = await listed_ledger(client, log, message_id.ledger_id)
    found = Explanation(
        message_id=message_id, resolution=resolution, trim_before=record.trim_before, listed=listed
    )
    if listed is None or min(message_id) < 0:
        return found  # no bookie has an entry of such an id
    try:
        return await _in_ledger(client, found, listed.ledger_id)
    except (LedgerNotFoundError, EntryNotFoundError, MetadataFormatError) as error:
        still = await listed_ledger(client, log, message_id.ledger_id)
        if still is None:
            return await explain(client, log, message_id)  # it was trimmed and deleted in the meantime
        if isinstance(error, EntryNotFoundError) or not is_lost_ledger(error):
            raise
        raise loss_of_ledger(log, still, error) from error


async def _in_ledger(client: Inspected, found: Explanation, ledger_id: LedgerId) -> Explanation:
    """The same with what the ledger and its bookies have of the message."""
    entry_id = EntryId(found.message_id.entry_id)
    handle = await client.ledgers.open(ledger_id, client.config.password)
    if found.resolution is Resolution.COMMITTED:
        handle.confirm(entry_id)  # this handle may have asked other bookies, which know less
    audit = CopyAudit(client.ledgers)
    try:
        metadata, copies = await audit.current_copies(ledger_id, handle.metadata, entry_id, entry_id)
        batch = None
        if entry_id <= handle.last_readable:
            [entry] = await handle.read(entry_id, entry_id)
            batch = MessageBatch.decoded(ledger_id, entry_id, entry.payload)
        return replace(
            found,
            resolution=_resolution(found, batch),
            metadata=metadata,
            last_readable=handle.last_readable,
            copies=copies[entry_id],
            batch=None if batch is None else len(batch),
            producer_id=None if batch is None else batch.producer_id,
            sequence=None if batch is None else _sequence(batch, found.message_id),
            message=None if batch is None else _message(batch, found.message_id),
        )
    finally:
        await handle.close()
        await audit.close()


def _resolution(found: Explanation, batch: MessageBatch | None) -> Resolution:
    """An entry that was undecided is decided once the ledger, opened again, shows it as confirmed."""
    if batch is None or found.resolution is not Resolution.UNDECIDED:
        return found.resolution
    return Resolution.COMMITTED if found.message_id.batch_index < len(batch) else Resolution.ABSENT


def _sequence(batch: MessageBatch, message_id: MessageId) -> int | None:
    if batch.first_sequence is None or message_id.batch_index >= len(batch):
        return None
    return batch.first_sequence + message_id.batch_index


def _message(batch: MessageBatch, message_id: MessageId) -> Message | None:
    return next((message for message in batch if message.id == message_id), None)
