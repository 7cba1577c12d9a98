"""Compares the messages of the log with the file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from dlog.demo.flights import Flight
from dlog.errors import DataLossError
from dlog.model import Message, MessageId

ROW_HEADER = b"row"
"""Header with the flight's line number, by which a writer finds where the previous one stopped."""


class Proof:
    """Checks a stream of messages against the file. Raises DataLossError at the first difference."""

    def __init__(self, flights: Sequence[Flight]) -> None:
        self._flights = flights
        self.count = 0
        self.first: MessageId | None = None
        self.last: MessageId | None = None

    def check(self, messages: Iterable[Message]) -> None:
        """Check that these messages are the next lines of the file, with increasing ids."""
        for message in messages:
            if self.count == len(self._flights):
                raise DataLossError(
                    f"message {message.id} is after the last of {self.count} flights: one is duplicated"
                )
            flight = self._flights[self.count]
            if (message.key, message.payload) != (flight.carrier, flight.line):
                raise DataLossError(
                    f"message {message.id} must be line {self.count + 1} of the file, {flight.line!r}, "
                    f"got {message.payload!r}"
                )
            if self.last is not None and message.id <= self.last:
                raise DataLossError(f"message {message.id} was read after {self.last}: ids must increase")
            self.first = self.first or message.id
            self.last = message.id
            self.count += 1

    @property
    def complete(self) -> bool:
        return self.count == len(self._flights)


def longest_pause_ms(times_s: Sequence[float]) -> float:
    """The longest time between two consecutive events, in milliseconds."""
    return max((later - earlier for earlier, later in pairwise(times_s)), default=0.0) * 1000


def differences(found: dict[str, float], wanted: dict[str, float]) -> list[str]:
    """Carriers whose means differ by more than rounding, or that only one of the two has."""
    return sorted(
        carrier
        for carrier in found.keys() | wanted.keys()
        if abs(found.get(carrier, float("inf")) - wanted.get(carrier, float("-inf"))) > 1e-9
    )
