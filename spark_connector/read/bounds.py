"""The bounds of a batch read as message ids. Pure: the caller has read the log metadata and the ledgers.

Both bounds are resolved once, at planning, so that every task and every retry reads the same range. The end is never
above the tail at planning, even if `endingId` is.
"""

from __future__ import annotations

from dlog.core.tailing import is_after_all
from dlog.errors import TrimmedError, UnknownPositionError
from dlog.model import EARLIEST_ID, MessageId
from spark_connector.extents.partitions import Extent, between
from spark_connector.extents.readable import Readable
from spark_connector.extents.trimming import has_missed
from spark_connector.options.bounds import EndingBound, StartingBound


def bounded(log: str, readable: Readable, starting: StartingBound, ending: EndingBound) -> list[Extent]:
    """The parts of what is readable, the log up to its tail, between the bounds.

    Raises:
        TrimmedError: messages at `starting` were trimmed.
        UnknownPositionError: the ledger of `starting` does not exist yet.
    """
    extents = readable.extents
    tail = extents[-1].end if extents else EARLIEST_ID
    start = start_of(log, readable, starting, tail)
    end = tail if ending == "latest" else min(ending, tail)
    return between(extents, start, end)


def start_of(log: str, readable: Readable, starting: StartingBound, tail: MessageId) -> MessageId:
    """The first id of a read. If `starting` is an id below the trim id, `readable` is from its ledger on.

    Raises:
        TrimmedError: messages at `starting` were trimmed.
        UnknownPositionError: the ledger of `starting` does not exist yet.
    """
    record = readable.record
    if starting == "earliest":
        return record.trim_before
    if starting == "latest":
        return max(tail, record.trim_before)
    if has_missed(readable, starting):
        raise TrimmedError(
            f"messages at startingId {starting} of log {log} were trimmed: it begins at {record.trim_before}",
            requested=starting,
            earliest=record.trim_before,
        )
    is_to_come = starting.ledger_id > record.last_ledger_id and not is_after_all(starting, record)
    if starting != EARLIEST_ID and is_to_come:
        raise UnknownPositionError(
            f"startingId {starting} is in a ledger that log {log} does not have: its last one is "
            f"{record.last_ledger_id}",
            requested=starting,
            last=record.last_ledger_id,
        )
    return max(starting, record.trim_before)
