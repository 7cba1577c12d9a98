"""The blob that lists which entries of a ledger a bookie holds. Pure; docs/bookkeeper.md#entry-lists.

    offset  size  field
    0       4     version          0
    4       4     number of groups
    8       56    zero
    64      24 g  groups, ascending: first start (8), last start (8), run length (4), period (4)

A group is runs of equal length whose starts are `period` apart; period 0 is a single run. As Apache's bookie does,
ours writes single runs only, as long as they are not too many for a frame.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

_HEADER = Struct(">ii56x")
_GROUP = Struct(">qqii")
_PERIOD_MAX = 2**31 - 1


def encode_availability(runs: Iterable[tuple[int, int]]) -> bytes:
    """The blob for runs of entries, each as its first and last id, ascending."""
    return _blob([_GROUP.pack(first, first, last - first + 1, 0) for first, last in runs])


def encode_in_periods(runs: Iterable[tuple[int, int]]) -> bytes:
    """The same, much shorter for a striped ledger, of which a bookie has equal runs with equal gaps."""
    return _blob([_GROUP.pack(*group) for group in _groups(runs)])


def _blob(groups: list[bytes]) -> bytes:
    return _HEADER.pack(0, len(groups)) + b"".join(groups)


def _groups(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    group: tuple[int, int, int, int] | None = None
    for first, last in runs:
        length = last - first + 1
        if group is not None:
            start, last_start, group_length, period = group
            step = first - last_start
            if length == group_length and step == (period or step) and step <= _PERIOD_MAX:
                group = start, first, length, step
                continue
            yield group
        group = first, first, length, 0
    if group is not None:
        yield group
