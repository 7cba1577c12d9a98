"""Sets of entry ids as ascending, disjoint (first, last) ranges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]


def dense_ranges(ids: Sequence[int]) -> Iterator[Range]:
    """Maximal ranges of consecutive ids in an ascending sequence."""
    if not ids:
        return
    first = previous = ids[0]
    for entry_id in ids[1:]:
        if entry_id != previous + 1:
            yield first, previous
            first = entry_id
        previous = entry_id
    yield first, previous


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """The union: ranges that touch or overlap become one."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def ranges_between(first: int, last: int, ranges: Sequence[Range]) -> Iterator[Range]:
    """What of [first, last] is in none of the ascending, disjoint ranges."""
    for start, end in ranges[max(0, bisect_right(ranges, (first, first)) - 1) :]:
        if start > last:
            break
        if end < first:
            continue
        if start > first:
            yield first, start - 1
        first = end + 1
    if first <= last:
        yield first, last
