"""How often the idle readers of one client look at a log although nothing has told them that it has changed.

A long poll or a watch wakes a reader when its log grows. The slow poll is what remains if one of them is late or lost,
and costs two requests to the metadata store and some to bookies. Invariant: all readers of a client together make at
most `POLLS_PER_S` of them a second, so that thousands of idle readers cost what a few do.

Source: docs/log-semantics.md#rule-27.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

POLLS_PER_S = 4.0
"""With 20 idle readers each still polls every 5 s, the default of `slow_poll_s`; with 1,000 every 250 s."""


class SlowPolls:
    """Shared by the readers of one client."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._waiting = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a reader waits for its log to grow."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def interval_s(self, wanted_s: float) -> float:
        """After how many seconds a reader that waits polls: `wanted_s`, or its share of what all may poll."""
        share_s = self._waiting / POLLS_PER_S
        if share_s <= wanted_s:
            return wanted_s
        # Readers that were opened together must not poll together.
        return max(wanted_s, share_s * self._rng.uniform(0.75, 1.25))
