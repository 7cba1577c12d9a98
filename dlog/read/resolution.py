"""The outcome of an append that ended indeterminate (docs/log-semantics.md#rule-8).

It is decided by entry, since a batch is stored completely or not at all. Once it is not UNDECIDED it never changes,
except that a committed message may be trimmed later.

Pitfall: docs/pitfalls.md#timeout-as-failure.
"""

from __future__ import annotations

from enum import StrEnum

from dlog.errors import HistoryPageError, LogNotFoundError, UnknownPositionError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogState, MessageId
from dlog.read.tail import end_of, opener
from ledger.client import LedgerClient
from ledger.errors import LedgerNotFoundError
from ledger.metadata.rounds import Rounds


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
        LedgerNotFoundError: the listed ledger of the id does not exist: it is lost.
        HistoryPageError: the part of the ledger list that has the id is lost.
        ReadError: too few bookies respond.
    """
    rounds = Rounds(ledgers.environment, f"the record of log {ref}")
    while True:
        record = (await logs.read(ref)).value
        if record.state is LogState.DELETING:
            raise LogNotFoundError(
                f"log {ref} is being deleted, so the outcome of an append can no longer be determined",
                log=str(ref),
            )
        try:
            listed = await logs.ledger_list(ref, record).find(message_id.ledger_id)
            if message_id < record.trim_before or listed is None:
                return _unlisted(record, message_id)
            last_entry, sealed = await end_of(listed, opener(ledgers, password))
        except (LedgerNotFoundError, HistoryPageError) as error:
            if (await logs.read(ref)).value == record:
                raise  # listed and missing: lost, not absent
            await rounds.again(error)
            continue
        if message_id.entry_id <= last_entry:
            return Resolution.COMMITTED
        return Resolution.ABSENT if sealed else Resolution.UNDECIDED


def _unlisted(record: LogMetadata, message_id: MessageId) -> Resolution:
    if message_id < record.trim_before:
        return Resolution.TRIMMED
    last = record.last_ledger_id
    if message_id.ledger_id > last:
        raise UnknownPositionError(
            f"message {message_id} is in a ledger above the last one of the log, which is {last}: no append can have "
            "returned it; pass the id from an AppendIndeterminateError of this log",
            requested=message_id,
            last=last,
        )
    return Resolution.ABSENT  # its ledger was sealed empty, and left the list for that
