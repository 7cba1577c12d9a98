"""The slow polls of all readers of a client cost what a few do."""

from __future__ import annotations

from contextlib import ExitStack
from random import Random

from dlog.read.slow_polls import POLLS_PER_S, SlowPolls


def test_a_few_readers_poll_as_often_as_they_want() -> None:
    polls = SlowPolls(Random(1))
    with ExitStack() as waiting:
        for _ in range(int(5 * POLLS_PER_S)):
            waiting.enter_context(polls.waiting())
        assert [polls.interval_s(wanted_s) for wanted_s in (5.0, 7.5)] == [5.0, 7.5]


def test_thousands_of_readers_poll_no_more_often_than_a_few() -> None:
    """And not together, though they were opened together."""
    polls, count = SlowPolls(Random(1)), 2_000
    with ExitStack() as waiting:
        for _ in range(count):
            waiting.enter_context(polls.waiting())
        intervals_s = [polls.interval_s(5.0) for _ in range(count)]
    polls_per_s = sum(1 / interval_s for interval_s in intervals_s)
    assert 0.9 * POLLS_PER_S < polls_per_s < 1.1 * POLLS_PER_S
    assert max(intervals_s) - min(intervals_s) > 0.4 * count / POLLS_PER_S


def test_readers_that_wait_no_longer_do_not_count() -> None:
    polls = SlowPolls(Random(1))
    with ExitStack() as waiting:
        for _ in range(2_000):
            waiting.enter_context(polls.waiting())
    assert polls.interval_s(0.1) == 0.1
