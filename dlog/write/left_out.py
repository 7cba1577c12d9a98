"""Sequences of a producer that are missing in the log although the program wanted to append them. Pure."""

from __future__ import annotations

from typing import TypeAlias

LeftOut: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges, first and last sequence of each: ascending, with a gap between any two."""

RANGES_MAX = 1000
"""More are of a program that passes over what is rejected: the last two become one, with what is between them."""


def leave_out(ranges: LeftOut, first: int, last: int) -> LeftOut:
    """These ranges and one more."""
    before = tuple(each for each in ranges if each[1] < first - 1)
    after = tuple(each for each in ranges if each[0] > last + 1)
    for low, high in ranges[len(before) : len(ranges) - len(after)]:
        first, last = min(first, low), max(last, high)
    ranges = (*before, (first, last), *after)
    return ranges if len(ranges) <= RANGES_MAX else (*ranges[:-2], (ranges[-2][0], ranges[-1][1]))


def keep_above(ranges: LeftOut, sequence: int) -> LeftOut:
    """What of the ranges is above the sequence."""
    return tuple((max(first, sequence + 1), last) for first, last in ranges if last > sequence)
