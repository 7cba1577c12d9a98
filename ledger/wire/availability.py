"""The blob that lists which entries of a ledger a bookie holds. Pure; docs/bookkeeper.md#entry-lists.

    offset  size  field
    0       4     version          0
    4       4     number of groups
    8       56    zero
    64      24 g  groups, ascending: first start (8), last start (8), run length (4), period (4)

A group is runs of equal length whose starts are `period` apart; period 0 is a single run. As Apache's bookie does,
ours writes single runs only.
"""

from collections.abc import Iterable
from struct import Struct

_HEADER = Struct(">ii56x")
_GROUP = Struct(">qqii")


def encode_availability(runs: Iterable[tuple[int, int]]) -> bytes:
    """The blob for runs of entries, each as its first and last id, ascending."""
    groups = [_GROUP.pack(first, first, last - first + 1, 0) for first, last in runs]
    return _HEADER.pack(0, len(groups)) + b"".join(groups)
