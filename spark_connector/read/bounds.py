"""The bounds of a batch read as message ids. Pure: the caller has read the log metadata and the ledgers.

Both bounds are resolved once, at planning, so that every task and every retry reads the same range. The end is never
above the tail at planning, even if `endingId` is.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlog.errors import TrimmedError, UnknownPositionError
from dlog.model import EARLIEST_ID, LogMetadata, MessageId
from spark_connector.extents.partitions import Extent, between
from spark_connector.extents.trimming import has_missed
from spark_connector.options.bounds import EndingBound, StartingBound


def bounded(
    log: str, record: LogMetadata, extents: Sequence[Extent], starting: StartingBound, ending: EndingBound
) -> list[Extent]:
    """The parts of `extents`, the log up to its tail, between the bounds.

    Raises:
        TrimmedError: messages at `starting` were trimmed.
        UnknownPositionError: the ledger of `starting` does not exist yet.
    """
    tail = extents[-1].end if extents else EARLIEST_ID
    start = start_of(log, record, extents, starting, tail)
    end = tail if ending == "latest" else min(ending, tail)
    return between(extents, start, end)


def start_of(
    log: str, record: LogMetadata, extents: Sequence[Extent], starting: StartingBound, tail: MessageId
) -> MessageId:
    """The first id of a read. `extents`: what is readable from the ledger of `starting` on, if it is an id.

    Raises:
        TrimmedError: messages at `starting` were trimmed.
        UnknownPositionError: the ledger of `starting` does not exist yet.
    """
    if starting == "earliest":
        return record.trim_before
    if starting == "latest":
        return max(tail, record.trim_before)
    if has_missed(record, extents, starting):
        raise TrimmedError(
            f"messages at startingId {starting} of log {log} were trimmed: it begins at {record.trim_before}",
            requested=starting,
            earliest=record.trim_before,
        )
    if starting != EARLIEST_ID and starting.ledger_id > record.last_ledger_id:
        raise UnknownPositionError(
            f"startingId {starting} is in a ledger that log {log} does not have: its last one is "
            f"{record.last_ledger_id}",
            requested=starting,
            last=record.last_ledger_id,
        )
    return max(starting, record.trim_before)
