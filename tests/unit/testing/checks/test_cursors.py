"""Wrong histories of a cursor are refused, and right ones that look like them are not."""

from __future__ import annotations

import math

import pytest

from dlog.model import MessageId
from dlog.testing.checks.cursors import Acked, Event, Opened, Set, c18_cursors_move_forward_and_by_one


def at(entry: int, index: int = 0) -> MessageId:
    return MessageId(5, entry, index)


FIRST = Opened(1, 0.0, 1.0, at(0))
ACKED = Acked(1, at(3), 2.0, 3.0, done=True)
UNKNOWN = Acked(1, at(3), 2.0)
SECOND = Opened(2, 4.0, 5.0, at(3))
REMOVED = Set(None, 3.2, 3.4, done=True)

RIGHT: dict[str, tuple[Event, ...]] = {
    "one after the other": (FIRST, ACKED, SECOND, Acked(2, at(7), 6.0, 7.0, done=True)),
    "an outcome that is not known, made": (FIRST, UNKNOWN, SECOND),
    "an outcome that is not known, not made": (FIRST, UNKNOWN, Opened(2, 4.0, 5.0, at(0))),
    "the end of an entry is the beginning of the next": (
        FIRST,
        Acked(1, at(2, 4), 2.0, 3.0, done=True),
        SECOND,
    ),
    "acknowledged while another one takes it over": (FIRST, Acked(1, at(3), 2.0, 4.5, done=True), SECOND),
    "opened before it is acknowledged": (FIRST, Opened(2, 1.5, 5.0, at(0)), ACKED),
    "set back": (FIRST, ACKED, Set(at(1), 3.2, 3.4, done=True), Opened(2, 4.0, 5.0, at(1))),
    "set back, or not": (FIRST, ACKED, Set(at(1), 3.2), SECOND),
    "removed, and so created anew": (FIRST, ACKED, REMOVED, Opened(2, 4.0, 5.0, at(0))),
    "created by a reader that did not report it": (Opened(2, 4.0, 5.0, at(1)),),
    "refused": (FIRST, ACKED, SECOND, Acked(1, at(9), 6.0, 7.0)),
}
WRONG: dict[str, tuple[tuple[Event, ...], str]] = {
    "an acknowledgement is lost": (
        (FIRST, ACKED, Opened(2, 4.0, 5.0, at(0))),
        "although 5:3:0 was acknowledged",
    ),
    "an acknowledgement is partly lost": (
        (FIRST, UNKNOWN, Acked(1, at(4), 3.1, 3.3, done=True), SECOND),
        "although 5:4:0 was acknowledged",
    ),
    "a message is skipped": ((FIRST, ACKED, Opened(2, 4.0, 5.0, at(3, 1))), "where the cursor was never set"),
    "a cursor that was never removed begins anew": (
        (FIRST, Opened(2, 4.0, 5.0, at(2))),
        "where the cursor was never set",
    ),
    "removed long ago": (
        (FIRST, REMOVED, Opened(2, 4.0, 5.0, at(0)), Opened(3, 6.0, 7.0, at(2))),
        "where the cursor was never set",
    ),
    "an older reader moves it": (
        (FIRST, Opened(2, 4.0, 5.0, at(0)), Acked(1, at(3), 6.0, 7.0, done=True)),
        "reader 1 has moved the cursor to 5:3:0 at 7.000, after reader 2 has taken it over",
    ),
    "a reader undoes what an operator has set": (
        (FIRST, Set(at(1), 2.0, 3.0, done=True), Acked(1, at(3), 4.0, 5.0, done=True)),
        "after it was set",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_are_accepted(name: str) -> None:
    assert list(c18_cursors_move_forward_and_by_one(RIGHT[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_refused(name: str) -> None:
    events, sentence = WRONG[name]
    found = list(c18_cursors_move_forward_and_by_one(events))
    assert any(sentence in each for each in found), found


def test_an_event_without_an_end_has_none() -> None:
    assert UNKNOWN.returned == math.inf
    assert not UNKNOWN.done
