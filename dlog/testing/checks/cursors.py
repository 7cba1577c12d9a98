"""C18: what consumers may see of a cursor that they share, from the events that they report.

A position may stand for its message in two ways: after the last one of an entry, and at the beginning of the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlog.model import EARLIEST_ID, MessageId


@dataclass(frozen=True, slots=True)
class Opened:
    """A reader that has taken the cursor over. `holder` is a number of its own."""

    holder: int
    invoked: float
    returned: float
    position: MessageId


@dataclass(frozen=True, slots=True)
class Acked:
    """An acknowledgement that was to move the cursor. `returned`: infinite if it has no end. `done`: it succeeded."""

    holder: int
    position: MessageId
    invoked: float
    returned: float = math.inf
    done: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """A change by an operator. `position`: None if the cursor was to be removed."""

    position: MessageId | None
    invoked: float
    returned: float = math.inf
    done: bool = False


Event = Opened | Acked | Set


def c18_cursors_move_forward_and_by_one(events: Iterable[Event]) -> Iterator[str]:
    """A reader begins where something was acknowledged, not before an acknowledgement that succeeded, and shuts the
    readers before it out."""
    known = list(events)
    opened = [each for each in known if isinstance(each, Opened)]
    acked = [each for each in known if isinstance(each, Acked)]
    changes = [each for each in known if isinstance(each, Set)]
    for each in opened:
        yield from _begins_before_an_ack(each, acked, changes)
        yield from _begins_where_nothing_was_acked(each, opened, acked, changes)
    for ack in acked:
        yield from _moved_by_an_old_holder(ack, opened, changes)


def _begins_before_an_ack(each: Opened, acked: Sequence[Acked], changes: Sequence[Set]) -> Iterator[str]:
    for ack in acked:
        before = ack.done and ack.returned < each.invoked
        undone = any(one.returned > ack.invoked and one.invoked < each.returned for one in changes)
        if before and not undone and not _at_or_above(each.position, ack.position):
            yield (
                f"reader {each.holder} begins at {each.position}, although {ack.position} was acknowledged by reader "
                f"{ack.holder} at {ack.returned:.3f}, before it was opened at {each.invoked:.3f}"
            )


def _begins_where_nothing_was_acked(
    each: Opened, opened: Sequence[Opened], acked: Sequence[Acked], changes: Sequence[Set]
) -> Iterator[str]:
    """Unless it may have created the cursor."""
    removed = any(
        one.position is None
        and one.invoked < each.returned
        and not any(later.invoked > one.returned and later.returned < each.invoked for later in opened)
        for one in changes
    )
    first = not any(one.returned < each.invoked for one in opened)
    possible = {one.position for one in opened if one is not each and one.invoked < each.returned}
    possible |= {one.position for one in acked if one.invoked < each.returned}
    possible |= {one.position for one in changes if one.position is not None and one.invoked < each.returned}
    if removed or first or any(_same(each.position, one) for one in possible):
        return
    yield f"reader {each.holder} begins at {each.position}, where the cursor was never set and nothing was acknowledged"


def _moved_by_an_old_holder(ack: Acked, opened: Sequence[Opened], changes: Sequence[Set]) -> Iterator[str]:
    own = next(one for one in opened if one.holder == ack.holder)
    later = [one for one in opened if one.invoked > own.returned and one.returned < ack.invoked]
    later_set = [
        one for one in changes if one.done and one.invoked > own.returned and one.returned < ack.invoked
    ]
    if ack.done and (later or later_set):
        taken = f"reader {later[0].holder} has taken it over" if later else "it was set"
        yield f"reader {ack.holder} has moved the cursor to {ack.position} at {ack.returned:.3f}, after {taken}"


def _same(position: MessageId, other: MessageId) -> bool:
    return position == other or position == _next_entry(other) or other == _next_entry(position)


def _at_or_above(position: MessageId, other: MessageId) -> bool:
    return position >= other or _same(position, other)


def _next_entry(position: MessageId) -> MessageId:
    """What a position after the last message of an entry also is."""
    if position == EARLIEST_ID or position.batch_index == 0:
        return position
    return MessageId(position.ledger_id, position.entry_id + 1, 0)
