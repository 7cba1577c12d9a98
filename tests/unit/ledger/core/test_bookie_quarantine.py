"""How long a bookie that failed is left alone."""

from __future__ import annotations

from ledger.core.bookie_quarantine import BookieQuarantine
from ledger.model import BookieId

A, B = BookieId("a"), BookieId("b")


def test_a_useless_bookie_rests_twice_as_long_each_time_up_to_the_limit() -> None:
    patience, now, rests = BookieQuarantine(0.5, 3.0), 0.0, []
    for _ in range(5):
        patience.on_failed(A, useful=False, now=now)
        started = now
        while A in patience.resting(now):
            now += 0.25
        rests.append(now - started)
    assert rests == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_one_that_was_of_use_starts_anew() -> None:
    patience = BookieQuarantine(0.5, 60.0)
    for now in (0.0, 10.0, 20.0):
        patience.on_failed(A, useful=False, now=now)
    patience.on_failed(A, useful=True, now=30.0)
    assert patience.resting(30.4) == {A}
    assert patience.resting(30.5) == set()


def test_bookies_are_distinguished() -> None:
    patience = BookieQuarantine(0.5, 60.0)
    patience.on_failed(A, useful=True, now=0.0)
    assert B not in patience.resting(0.1)
