"""Publishing the batch of a sink: whether its ledgers may enter a log's list, and whether they have. Pure.

A sink takes the log over without a new ledger, so that every listed ledger is sealed. Its tasks write ledgers of their
own, which no list names yet, and close them. Then one compare-and-set lists all of them and raises the sink's mark.

Invariants (docs/log-semantics.md#rule-37):

- A batch is published only in the epoch in which its ledgers were written, by the owner of that epoch.
- A batch at or below its sink's mark was published and is not published again.
- After a lost answer the record decides: the mark, or a listed ledger of the batch, shows that the change was made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dlog.core import metadata_changes
from dlog.core.metadata_update import may_enter_list
from dlog.format.log_metadata import SINKS_MAX
from dlog.model import ListedLedger, LogMetadata, LogState, Owner, SealFacts, SinkMark
from ledger.errors import ConfigurationError
from ledger.model import LedgerId

MARK_KEPT_US = 30 * 86_400 * 1_000_000
"""A mark that is younger is never dropped for that of another sink: its last batch may still be replayed."""
WRITER_ID_MAX = 200
"""Characters; sixty-four of them are a small part of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """A batch that can be recognised when it is replayed: the sink's id, and a number that rises from batch to batch.

    Raises:
        ConfigurationError: the id is empty or too long, or the number negative or too large.
    """

    writer_id: str
    number: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.writer_id) <= WRITER_ID_MAX:
            raise ConfigurationError(
                f"a sink's writer id must have 1 to {WRITER_ID_MAX} characters, got {len(self.writer_id)}"
            )
        if not 0 <= self.number < 2**63:
            raise ConfigurationError(f"a batch number must be 0 to 2^63 - 1, got {self.number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedLedger:
    """A closed ledger with messages of one task, that no list names yet."""

    ledger_id: LedgerId
    created_us: int
    last_entry: int
    message_count: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """What the sink that wrote a batch was in the log's record."""

    log_uuid: str
    epoch: int
    owner: Owner


@dataclass(frozen=True, slots=True)
class Publish:
    """Set this record."""

    record: LogMetadata


@dataclass(frozen=True, slots=True)
class Published:
    """The log has the batch already. `listed`: which of these ledgers are in it; others are of a replay."""

    listed: frozenset[LedgerId]


@dataclass(frozen=True, slots=True)
class NotOwner:
    """The log is another client's, or ended."""


@dataclass(frozen=True, slots=True)
class Barred:
    """Ledgers of the batch can never be listed any more (docs/log-semantics.md#rule-3)."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The record has a mark of as many sinks as it can hold, none of them old."""


Verdict = Publish | Published | NotOwner | Barred | NoRoom


def publication(
    record: LogMetadata,
    ours: Ownership,
    batch: SinkBatch | None,
    staged: Sequence[StagedLedger],
    *,
    append_time_us: int,
    now_us: int,
    nonce: int,
) -> Verdict:
    """What is to be done with a batch, by a fresh record. `batch` is None if its replay cannot be recognised.

    All its entries have this append time.
    """
    assert staged, "a batch without messages changes nothing"
    listed = named_in(record, {one.ledger_id for one in staged})
    if listed or was_published(record, batch):
        return Published(listed)
    if not _is_owner(record, ours):
        return NotOwner()
    if not all(may_enter_list(record, one.ledger_id) for one in staged):
        return Barred()
    sinks = record.sinks if batch is None else raised(record.sinks, batch, now_us)
    if sinks is None:
        return NoRoom()
    ledgers = [_listed(one, ours.epoch, append_time_us) for one in staged]
    return Publish(metadata_changes.with_published(record, ledgers, sinks, nonce))


def was_published(record: LogMetadata, batch: SinkBatch | None) -> bool:
    """Whether the sink's mark is at the batch or above it."""
    return batch is not None and any(
        mark.writer_id == batch.writer_id and mark.batch >= batch.number for mark in record.sinks
    )


def named_in(record: LogMetadata, ledger_ids: Collection[LedgerId]) -> frozenset[LedgerId]:
    """Which of these the record lists outside of its pages, or did list until they were trimmed."""
    pending = {one.ledger_id for one in record.pending_delete}
    return frozenset(one for one in ledger_ids if one in pending or record.find_recent(one) is not None)


def raised(sinks: tuple[SinkMark, ...], batch: SinkBatch, now_us: int) -> tuple[SinkMark, ...] | None:
    """The marks with that of this batch; None if there is no capacity for another sink.

    The oldest mark makes way for a new sink once it is older than MARK_KEPT_US.
    """
    others = [mark for mark in sinks if mark.writer_id != batch.writer_id]
    if len(others) >= SINKS_MAX:
        oldest = min(others, key=lambda mark: mark.time_us)
        if now_us - oldest.time_us < MARK_KEPT_US:
            return None
        others.remove(oldest)
    return (*others, SinkMark(writer_id=batch.writer_id, batch=batch.number, time_us=now_us))


def _is_owner(record: LogMetadata, ours: Ownership) -> bool:
    return (
        record.log_uuid == ours.log_uuid
        and record.epoch == ours.epoch
        and record.owner == ours.owner
        and record.state is LogState.ACTIVE
    )


def _listed(staged: StagedLedger, epoch: int, append_time_us: int) -> ListedLedger:
    return ListedLedger(
        ledger_id=staged.ledger_id,
        epoch=epoch,
        created_us=staged.created_us,
        seal=SealFacts(
            last_entry=staged.last_entry,
            message_count=staged.message_count,
            byte_count=staged.byte_count,
            first_append_us=append_time_us,
            last_append_us=append_time_us,
        ),
    )
