"""The range that a reader reads. Pure.

The beginning is one of `start` (inclusive), `after` (exclusive) and `last` (a number of messages before the tail), the
end is `until` (exclusive). Without `until` the reader waits for more. `latest` is the tail at the time of opening. A
time is the first message that was appended at or after it, or the tail if there is none yet.

Source: docs/log-semantics.md#rule-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dlog.model import EARLIEST_ID, NO_MESSAGE, MessageId, next_id, position_of
from ledger.arguments import require_type
from ledger.errors import ConfigurationError, InvalidNameError


class Place(StrEnum):
    """A position named by a word."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTime:
    """A position named by a time, in microseconds since 1970."""

    time_us: int


Where = MessageId | str | datetime
"""A message id, its text (`17:420:3`), the word `earliest` or `latest`, or a time with its time zone."""
Position = MessageId | Place | AtTime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """A valid range. If `last` is set, `start` is ignored. If `until` is None, the reader waits for more."""

    start: Position = Place.EARLIEST
    until: Position | None = None
    last: int | None = None


def read_range(
    *,
    start: Where | None = None,
    after: Where | None = None,
    until: Where | None = None,
    last: int | None = None,
) -> ReadRange:
    """Check the arguments of a reader and return its range.

    Raises:
        ConfigurationError: more than one of `start`, `after` and `last` is set, `last` is below 1, `after` is no id, a
            time has no time zone, or `until` is before where the range begins, by what the arguments alone show.
        InvalidNameError: a text is not a valid message id, or a number of an id is out of range.
    """
    if sum(value is not None for value in (start, after, last)) > 1:
        raise ConfigurationError(
            f"pass only one of start, after and last, got start={start}, after={after}, last={last}"
        )
    require_type("last", last, int, type(None))
    if last is not None and last < 1:
        raise ConfigurationError(f"last is a number of messages and must be at least 1, got {last}")
    end = None if until is None else _position(until)
    if after is not None:
        return _in_order(ReadRange(start=_after(after), until=end), after, until)
    start = Place.EARLIEST if start is None else start
    return _in_order(ReadRange(start=_position(start), until=end, last=last), start, until)


def _in_order(wanted: ReadRange, start: Where, until: Where | None) -> ReadRange:
    """`start`: or `after`. An empty range is valid: `until` may be where it begins."""
    match _position(start), wanted.until:
        case (MessageId() as first, MessageId() as end):
            is_before = end < first and not _may_be_after_its_entry(end, first)
        case (AtTime(first_us), AtTime(end_us)):
            is_before = end_us < first_us
        case (first, Place.EARLIEST):
            is_before = first not in (Place.EARLIEST, EARLIEST_ID)
        case _:
            return wanted
    if is_before and wanted.last is None:
        raise ConfigurationError(
            f"until={until} is before {start}, where the reader begins: nothing is between them; exchange them, or "
            "leave until out to read on"
        )
    return wanted


def _may_be_after_its_entry(end: MessageId, first: MessageId) -> bool:
    """Whether `first` is the entry after that of `end`, which may be after the last message of its own."""
    is_next = (end.ledger_id, end.entry_id + 1) == (first.ledger_id, first.entry_id)
    return is_next and first.batch_index == 0 < end.batch_index


def _position(where: Where) -> Position:
    if isinstance(where, datetime):
        if where.tzinfo is None:
            raise ConfigurationError(
                f"the time {where} has no time zone: pass an aware datetime, for example datetime.now(timezone.utc)"
            )
        return AtTime(max(0, round(where.timestamp() * 1e6)))
    if isinstance(where, str) and where in (Place.EARLIEST, Place.LATEST):
        return Place(where)
    require_type("a position", where, MessageId, str, datetime)
    try:
        found = position_of(where)
    except InvalidNameError as error:
        if isinstance(where, MessageId):
            raise
        raise InvalidNameError(
            f"{where!r} is no position: pass an id LEDGER:ENTRY:BATCH like 17:420:3, earliest, latest, or a time as an "
            "aware datetime"
        ) from error
    return Place.EARLIEST if found == NO_MESSAGE else found


def _after(where: Where) -> MessageId | Place:
    if isinstance(where, str) and where not in tuple(Place):
        where = position_of(where)
    found = _position(where)
    if isinstance(found, MessageId):
        return next_id(found)
    if not isinstance(where, MessageId):
        raise ConfigurationError(f"after must be a message id, got {where!r}: use start={where!r}")
    return Place.EARLIEST  # everything is after NO_MESSAGE
