"""Where a reader begins, against where it was asked to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import Append, History, Observation, Outcome, ReadFrom, Trim
from dlog.testing.checks.reading import (
    c11_readers_begin_where_they_were_asked,
    c11_readers_end_where_they_were_asked,
)

IDS = [MessageId(1, 0, 0), MessageId(1, 1, 0), MessageId(1, 1, 1), MessageId(1, 1, 2), MessageId(4, 0, 0)]
BATCH = IDS[1]


def violations(start: ReadFrom, returned: list[MessageId], *, strict: bool = True) -> list[str]:
    """Message n was sent at second n and acknowledged half a second later."""
    return list(c11_readers_begin_where_they_were_asked(history_of(start, returned, strict=strict)))


def history_of(start: ReadFrom, returned: list[MessageId], *, strict: bool = True) -> History:
    history = History(strict=strict)
    for number, message_id in enumerate(IDS):
        payload = b"%d" % number
        history.final.append((message_id, payload))
        history.appends.append(Append("w", number, payload, number, number + 0.5, Outcome.ACKED, message_id))
    history.starts["r"] = start
    history.readers["r"] = [Observation(message_id, b"", 9.0) for message_id in returned]
    return history


def asked(place: str, message_id: MessageId = EARLIEST_ID, count: int = 0, *, at: float = 9.0) -> ReadFrom:
    return ReadFrom(place, message_id, count, at, at, message_id)


def tail(position: MessageId, *, at: float) -> ReadFrom:
    return replace(asked("latest", at=at), position=position)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (asked("earliest"), 0),
        (asked("id", IDS[0]), 0),
        (asked("id", MessageId(1, 0, 1)), 1),
        (asked("id", MessageId(1, 1, 1)), 2),
        (asked("id", MessageId(1, 1, 7)), 4),
        (asked("id", MessageId(2, 5, 0)), 4),
        (asked("after", MessageId(1, 1, 0)), 2),
        (asked("after", MessageId(1, 1, 2)), 4),
    ],
)
def test_a_read_begins_with_the_first_message_at_or_above_its_place(start: ReadFrom, first: int) -> None:
    assert violations(start, IDS[first:]) == []
    assert violations(start, []) == []  # it may not have come to it
    if first:
        assert "before it" in violations(start, IDS[first - 1 :])[0]
    assert first == 4 or "skipped 1 messages" in violations(start, IDS[first + 1 :])[0]


def test_what_was_trimmed_may_be_skipped() -> None:
    assert violations(asked("id", MessageId(0, 3, 0)), IDS) == []


def test_a_tail_is_above_what_was_acknowledged_and_not_above_what_was_sent_later() -> None:
    assert violations(tail(MessageId(1, 2, 0), at=3.7), IDS[4:]) == []
    assert (
        violations(tail(MessageId(1, 1, 2), at=3.2), IDS[3:]) == []
    )  # sent and not acknowledged: either way
    assert violations(tail(MessageId(1, 2, 0), at=3.2), IDS[4:]) == []
    assert "had been acknowledged before" in violations(tail(MessageId(1, 1, 2), at=3.7), [])[0]
    assert "was appended after that" in violations(tail(MessageId(4, 1, 0), at=3.7), [])[0]
    assert "skipped 1 messages" in violations(tail(MessageId(1, 1, 2), at=3.2), IDS[4:])[0]


def test_with_fast_visibility_a_tail_may_be_below_what_was_acknowledged() -> None:
    assert violations(tail(MessageId(1, 1, 0), at=3.7), [], strict=False) == []


def test_the_last_n_up_to_the_tail_are_exactly_n_unless_the_log_has_fewer() -> None:
    whole = replace(asked("last", count=2), complete=True)
    assert violations(whole, IDS[3:]) == []
    assert violations(replace(whole, count=9), IDS) == []
    assert "returned 3 messages" in violations(whole, IDS[2:])[0]
    assert "the log begins with" in violations(whole, IDS[4:])[0]
    assert "had been acknowledged before" in violations(whole, IDS[2:4])[0]


def test_a_tail_of_the_last_n_begins_n_before_what_could_be_the_tail() -> None:
    def last(position: MessageId, *, at: float) -> list[str]:
        return violations(replace(asked("last", count=2, at=at), position=position), [])

    assert last(IDS[2], at=3.7) == []
    assert last(IDS[1], at=3.2) == last(IDS[2], at=3.2) == []
    assert "begins 3 messages before" in last(IDS[1], at=3.7)[0]
    assert "begins at message 3 of the 4" in last(IDS[3], at=3.7)[0]
    assert last(IDS[0], at=0.7) == []


@pytest.mark.parametrize(("until", "count"), [(IDS[2], 2), (MessageId(1, 1, 7), 4), (MessageId(4, 9, 0), 5)])
def test_a_read_that_was_asked_to_end_returns_all_up_to_there(until: MessageId, count: int) -> None:
    def wrong(returned: list[MessageId], *, complete: bool = True) -> list[str]:
        start = replace(asked("earliest"), until=until, complete=complete, ended=9.0)
        return list(c11_readers_end_where_they_were_asked(history_of(start, returned)))

    assert wrong(IDS[:count]) == []
    assert "left out 1 messages" in wrong(IDS[: count - 1])[0]
    assert "left out" in wrong([])[0]
    assert wrong(IDS[: count - 1], complete=False) == []  # it did not come to its end
    assert count == len(IDS) or "returned" in wrong(IDS[: count + 1])[0]


def test_a_read_that_was_asked_to_end_may_skip_what_was_trimmed_and_only_that() -> None:
    start = replace(asked("earliest"), until=IDS[3], complete=True, ended=9.0)
    history = history_of(start, [])
    history.trims.append(Trim(IDS[3], 8.0, ()))
    assert list(c11_readers_end_where_they_were_asked(history)) == []
    history.trims[0] = Trim(IDS[3], 9.5, ())
    assert "left out" in next(c11_readers_end_where_they_were_asked(history))


@pytest.mark.parametrize(("time_us", "first"), [(0, 0), (10, 0), (11, 1), (20, 1), (21, 4), (30, 4)], ids=str)
def test_a_time_is_the_first_message_that_is_not_older(time_us: int, first: int) -> None:
    """The messages of an entry have one time."""
    for begins in range(len(IDS)):
        start = replace(asked("time"), time_us=time_us)
        history = history_of(start, IDS[begins:])
        history.times_us = dict(zip(IDS, (10, 20, 20, 20, 30), strict=True))
        assert (not [*c11_readers_begin_where_they_were_asked(history)]) == (begins == first)


def test_what_was_in_flight_at_the_tail_may_be_older_than_the_time_asked_for() -> None:
    def wrong(asked_at: float, *, first: int) -> list[str]:
        """The reader was at the second message when it was open; all but the last were appended before."""
        start = replace(tail(IDS[1], at=asked_at), place="time", time_us=25)
        history = history_of(start, IDS[first:])
        history.times_us = dict(zip(IDS, (10, 20, 20, 20, 30), strict=True))
        return list(c11_readers_begin_where_they_were_asked(history))

    assert wrong(1.2, first=1) == []
    assert "returned 1:0:0 first" in wrong(1.2, first=0)[0]
    assert "skipped 1 messages" in wrong(1.2, first=2)[0]
    assert "returned 1:1:0 first" in wrong(2.0, first=1)[0]  # acknowledged: the tail is above
