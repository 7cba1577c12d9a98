"""Histories that are right although they look odd: no check may refuse them."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from dlog.model import MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Outcome,
    ReadFrom,
    ReportedGap,
    Takeover,
    Trim,
    WholeRead,
)
from tests.helpers.simulation.histories import (
    EVERYTHING,
    FINAL,
    TWO,
    Damage,
    change,
    ids,
    one,
    two,
    unseen,
)


def see_an_unconfirmed_message_only_once(history: History) -> None:
    """Two readers may get to a message that is not acknowledged at different times (docs/log-semantics.md)."""
    history.takeovers.pop()
    history.resolutions.clear()
    history.whole_reads.append(WholeRead("behind", 6.7, ids(EVERYTHING[:6]), ended=6.8))


def keep_nothing_of_a_batch(history: History) -> None:
    change(history, b"i6", batch=6)
    change(history, b"i7", batch=6, message_id=one(4, 1))
    unseen(history)
    del history.final[2:4]


def overlook_with_fast_visibility_what_nothing_confirmed(history: History) -> None:
    history.strict = False
    history.whole_reads.append(WholeRead("behind", 8.6, ids(EVERYTHING[:-1]), ended=8.7))


def skip_what_is_trimmed(history: History) -> None:
    history.skipping.add("tail")
    tail = history.readers["tail"]
    tail[1:4] = []
    tail[1:] = [replace(seen, at=9.5) for seen in tail[1:]]


def report_what_is_trimmed(history: History) -> None:
    skip_what_is_trimmed(history)
    history.starts["tail"] = ReadFrom("id", one(0), 0, 1.5, 1.6, one(0))
    history.gaps["tail"] = [ReportedGap(one(0, 1), one(1, 1), 9.3), ReportedGap(one(1, 1), one(2), 9.4)]


def trim_while_a_whole_read_is_under_way(history: History) -> None:
    history.whole_reads.append(WholeRead("trimmed", 8.9, ids(FINAL), ended=9.1))


def ask_twice_for_trims(history: History) -> None:
    """The first ask is lost; the second one is granted, further than the first."""
    first, rest = history.trims[0].shadow[:1], history.trims[0].shadow[1:]
    history.trims[:] = [Trim(one(1), 8.9, first), Trim(one(2), 9, rest, 9.5)]


def ask_for_a_trim_that_is_never_granted(history: History) -> None:
    """Its shadow and what is read at the end have messages in common."""
    history.trims.append(Trim(two(0), 9.2, tuple(FINAL[:4])))


def lose_everything_in_flight(history: History) -> None:
    unseen(history)
    del history.final[2:4]


def take_over_twice_concurrently(history: History) -> None:
    """The one that was asked for later wins first; the other handle got the log after it."""
    history.takeovers.insert(1, Takeover("three", 7, 0, 0.1))
    history.takeovers.sort(key=lambda each: each.epoch or 0)
    history.appends[:] = [append for append in history.appends if append.writer == TWO]
    history.readers.clear()
    history.whole_reads.clear()
    history.resolutions.clear()
    history.trims.clear()
    history.trimmed_before = MessageId(0, 0, 0)
    del history.final[:4]


def pass_a_conditional_append_that_reads_the_tail_first(history: History) -> None:
    """It would be rejected, and its process dies before."""
    conditional = Append(TWO, -1, b"conditional", 6.5, inf, Outcome.INDETERMINATE)
    history.appends.append(conditional)
    history.expected[b"conditional"] = one(5)


ODD: list[Damage] = [
    pass_a_conditional_append_that_reads_the_tail_first,
    see_an_unconfirmed_message_only_once,
    keep_nothing_of_a_batch,
    overlook_with_fast_visibility_what_nothing_confirmed,
    skip_what_is_trimmed,
    report_what_is_trimmed,
    trim_while_a_whole_read_is_under_way,
    ask_twice_for_trims,
    ask_for_a_trim_that_is_never_granted,
    lose_everything_in_flight,
    take_over_twice_concurrently,
]
