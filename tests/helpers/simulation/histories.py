"""A history with something of everything, in which nothing is wrong; tests of the checks damage it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from dlog.model import MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    Resolved,
    Takeover,
    Trim,
    WholeRead,
)

Logged = tuple[MessageId, bytes]
ONE, TWO = "one", "two"


def one(entry_id: int, batch_index: int = 0) -> MessageId:
    """An id in the ledger of the first handle."""
    return MessageId(7, entry_id, batch_index)


def two(entry_id: int) -> MessageId:
    return MessageId(8, entry_id, 0)


SHADOW: list[Logged] = [(one(0), b"a0"), (one(1, 0), b"b1"), (one(1, 1), b"b2"), (one(1, 2), b"b3")]
FINAL: list[Logged] = [
    *((one(2), b"c4"), (one(3), b"a5"), (one(4), b"i6"), (one(5), b"i7")),
    *((two(0), b"t0"), (two(1), b"t1")),
]
EVERYTHING = SHADOW + FINAL
SEEN_AT = {b"a0": 1.6, b"b1": 2.6, b"b2": 2.6, b"b3": 2.6, b"c4": 4.6, b"a5": 4.6, b"i6": 6.6, b"i7": 6.6}


def sound() -> History:
    """The handle `one` appends and is deposed with appends in flight; `two` goes on; the beginning is trimmed.

    a: acknowledged, b: an acknowledged batch, c: cancelled and there, i: indeterminate, r: rejected.
    """
    return History(
        [
            Append(ONE, 0, b"a0", 1, 1.5, Outcome.ACKED, one(0)),
            *(Append(ONE, n, b"b%d" % n, 2, 2.5, Outcome.ACKED, one(1, n - 1), 1) for n in (1, 2, 3)),
            Append(ONE, 4, b"c4", 3, 3.2, Outcome.CANCELLED),
            Append(ONE, 5, b"a5", 4, 4.5, Outcome.ACKED, one(3)),
            Append(ONE, 6, b"i6", 5, 6.5, Outcome.INDETERMINATE, one(4)),
            Append(ONE, 7, b"i7", 5.1, 6.5, Outcome.INDETERMINATE, one(5)),
            Append(ONE, 8, b"i8", 5.2, 6.5, Outcome.INDETERMINATE, one(6)),
            Append(ONE, 9, b"i9", 5.3, inf, Outcome.INDETERMINATE),
            Append(ONE, 10, b"r10", 6.7, 6.7, Outcome.REJECTED),
            Append(TWO, 0, b"t0", 7, 7.5, Outcome.ACKED, two(0)),
            Append(TWO, 1, b"t1", 8, 8.5, Outcome.ACKED, two(1)),
        ],
        [Takeover(ONE, 0.5, 1, 0.0), Takeover(TWO, 6.0, 2, 5.5)],
        {
            "tail": [Observation(*each, SEEN_AT.get(each[1], 8.6)) for each in EVERYTHING],
            "late": [Observation(*each, 10) for each in FINAL[1:]],
        },
        list(FINAL),
        whole_reads=[
            WholeRead("early", 4.6, ids(EVERYTHING[:6]), ended=4.8),
            WholeRead("whole", 8.6, ids(EVERYTHING), ended=8.8),
            WholeRead("part", 8.7, ids(EVERYTHING[3:]), one(1, 2), 8.9),
            WholeRead("after the trim", 9.6, ids(FINAL), ended=9.8),
        ],
        trimmed_before=one(2),
        trims=[Trim(one(2), 9, tuple(SHADOW), 9.5)],
        resolutions=[
            Resolved(b"i6", one(4), "committed", 7, 7.2),
            Resolved(b"i8", one(6), "absent", 8, 8.2),
        ],
    )


def ids(messages: list[Logged]) -> frozenset[MessageId]:
    return frozenset(message_id for message_id, _ in messages)


# ---- damage


Damage = Callable[[History], None]
"""Changes a sound history."""
Wrong = list[tuple[Damage, str]]
"""Each with the name of the check that must refuse it."""


def refused_by(wrong: Wrong, *names: str) -> Callable[[Damage], Damage]:
    """Add the decorated function to the list, once for each check."""

    def add(damage: Damage) -> Damage:
        wrong.extend((damage, name) for name in names)
        return damage

    return add


def change(history: History, payload: bytes, **fields: Any) -> None:
    """Of the append of this payload."""
    index = [append.payload for append in history.appends].index(payload)
    history.appends[index] = replace(history.appends[index], **fields)


def unseen(history: History) -> None:
    """No reader gives the fault away."""
    history.readers.clear()
    history.whole_reads.clear()
    history.resolutions.clear()
