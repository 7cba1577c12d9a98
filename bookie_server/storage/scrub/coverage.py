"""Whether the index leads to the entries of a block, from the intervals that it has there. Pure.

Covered is covered, whichever block the interval names: a compaction moves entries, and late or repeated adds store them
once more. Only an interval that is not dense and names another block leaves doubt: whether that block has the entry is
written in it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bookie_server.storage.index import Interval

Place = tuple[int, int]
"""Log id and offset of a block."""


def leads_to(interval: Interval, place: Place) -> bool:
    """Whether every entry of the block at `place` that the interval covers is found by it."""
    return interval.dense or (interval.log_id, interval.offset) == place


def all_found(first: int, last: int, place: Place, intervals: Iterable[Interval]) -> bool:
    """Whether all entries from `first` to `last` of this block are certainly found.

    `intervals`: those that cover an id from `first` to `last`, ascending; no more of them are taken than are needed.
    """
    for interval in intervals:
        if interval.first > first or not leads_to(interval, place):
            return False
        first = interval.last + 1
        if first > last:
            return True
    return False


def by_interval(
    ids: Sequence[int], intervals: Iterable[Interval]
) -> Iterator[tuple[Interval | None, list[int]]]:
    """Ascending ids, put together by the interval that covers them; None for those that none covers.

    `intervals`: all that cover an id from the first to the last of them, ascending.
    """
    at = 0
    for interval in intervals:
        start = at
        while at < len(ids) and ids[at] < interval.first:
            at += 1
        if start < at:
            yield None, list(ids[start:at])
        start = at
        while at < len(ids) and ids[at] <= interval.last:
            at += 1
        if start < at:
            yield interval, list(ids[start:at])
    if at < len(ids):
        yield None, list(ids[at:])
