"""The blob that lists which entries of a ledger a bookie holds. Pure; docs/bookkeeper.md#entry-lists.

    offset  size  field
    0       4     version          0
    4       4     number of groups
    8       56    zero
    64      24 g  groups, ascending: first start (8), last start (8), run length (4), period (4)

A group is runs of equal length whose starts are `period` apart; period 0 is a single run. We write single
runs only, as Apache's bookie does, and read any. A short blob can claim 2^63 entries, so groups are never
expanded into ids here.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from ledger.errors import ProtocolError
from ledger.wire.entry import Buffer

_HEADER = Struct(">ii56x")
_GROUP = Struct(">qqii")


class Group(NamedTuple):
    """Runs of `run_length` consecutive entries, starting at first_start, + period, … up to last_start."""

    first_start: int
    last_start: int
    run_length: int
    period: int

    def contains(self, entry_id: int) -> bool:
        if not self.first_start <= entry_id < self.last_start + self.run_length:
            return False
        if self.period == 0:
            return True
        return (entry_id - self.first_start) % self.period < self.run_length


def runs_of(entry_ids: Iterable[int]) -> list[Group]:
    """Ascending entry ids as one group a run."""
    groups: list[Group] = []
    start = end = -1
    for entry_id in entry_ids:
        if entry_id != end or start < 0:
            if start >= 0:
                groups.append(Group(start, start, end - start, 0))
            start = entry_id
        end = entry_id + 1
    if start >= 0:
        groups.append(Group(start, start, end - start, 0))
    return groups


def encode_availability(groups: Iterable[Group]) -> bytes:
    packed = [_GROUP.pack(*group) for group in groups]
    return _HEADER.pack(0, len(packed)) + b"".join(packed)


def decode_availability(blob: Buffer) -> list[Group]:
    """The groups in `blob`; ProtocolError unless the header, their number and each of them make sense."""
    if len(blob) < _HEADER.size:
        raise ProtocolError(
            f"an availability list of {len(blob)} bytes needs {_HEADER.size}; ask another bookie"
        )
    version, count = _HEADER.unpack_from(blob)
    if version != 0:
        raise ProtocolError(f"availability list version {version} is not 0; ask another bookie")
    if len(blob) != _HEADER.size + count * _GROUP.size:
        raise ProtocolError(
            f"an availability list of {len(blob)} bytes claims {count} groups; ask another bookie"
        )
    groups = [Group._make(fields) for fields in _GROUP.iter_unpack(memoryview(blob)[_HEADER.size :])]
    for group in groups:
        _check(group)
    return groups


def _check(group: Group) -> None:
    single = group.period == 0 and group.first_start == group.last_start
    # Runs of one group may touch but not overlap, and the last one lies a whole number of periods on.
    repeated = (
        group.period >= group.run_length
        and group.last_start > group.first_start
        and (group.last_start - group.first_start) % group.period == 0
    )
    if group.first_start < 0 or group.run_length < 1 or not (single or (group.period > 0 and repeated)):
        raise ProtocolError(f"an availability list holds the impossible {group}; ask another bookie")
