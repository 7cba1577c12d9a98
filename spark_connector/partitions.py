"""Splits a range of a log into Spark partitions. Pure.

    extents    the part of each ledger in the range, as planning knows it, in list order
    pieces     extents cut at entry borders, none much larger than a partition should be
    partitions neighbouring pieces packed up to the wanted size; each is one contiguous range of ids

Every partition knows its exact number of entries, since a ledger's entry ids have no holes, and the exact
number of messages wherever planning could learn it (docs/decisions/0001-spark-partition-counts.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dlog.model import MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A run of one ledger's entries: `first_entry` to `last_entry`, both included.

    `skip` messages of the first entry and, where `limit` is given, all from index `limit` of the last entry
    on are outside the range. `byte_count` only balances work, so it may be an estimate; `messages` is exact
    or None.
    """

    ledger_id: int
    first_entry: int
    last_entry: int
    byte_count: int
    messages: int | None = None
    skip: int = 0
    limit: int | None = None

    @property
    def entries(self) -> int:
        return self.last_entry - self.first_entry + 1

    @property
    def start(self) -> MessageId:
        return MessageId(self.ledger_id, self.first_entry, self.skip)

    @property
    def end(self) -> MessageId:
        """Exclusive."""
        if self.limit is not None:
            return MessageId(self.ledger_id, self.last_entry, self.limit)
        return MessageId(self.ledger_id, self.last_entry + 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One task's work: extents in log order."""

    extents: tuple[Extent, ...]

    @property
    def start(self) -> MessageId:
        return self.extents[0].start

    @property
    def end(self) -> MessageId:
        """Exclusive."""
        return self.extents[-1].end

    @property
    def entries(self) -> int:
        return sum(extent.entries for extent in self.extents)

    @property
    def byte_count(self) -> int:
        return sum(extent.byte_count for extent in self.extents)


def within_bounds(extent: Extent, start: MessageId, end: MessageId) -> Extent | None:
    """The part of a whole ledger's extent with start <= id < end, or None if nothing is left.

    Its message count stays known only if nothing was cut off; its bytes shrink with its entries.
    """
    first, skip = extent.first_entry, 0
    if start > extent.start:
        if start.ledger_id > extent.ledger_id:
            return None
        first, skip = start.entry_id, start.batch_index
    last, limit = extent.last_entry, None
    if end < extent.end:
        if end.ledger_id < extent.ledger_id:
            return None
        last, limit = (end.entry_id, end.batch_index) if end.batch_index else (end.entry_id - 1, None)
    if first > last or (first == last and limit is not None and skip >= limit):
        return None
    if (first, skip, last, limit) == (extent.first_entry, 0, extent.last_entry, None):
        return extent
    return replace(_run(extent, first, last), skip=skip, limit=limit, messages=None)


def plan(extents: Iterable[Extent], *, partition_bytes: int, partitions_min: int = 1) -> list[Partition]:
    """Cut large extents, pack small ones. Concatenated, the partitions are exactly the extents."""
    found = list(extents)
    total = sum(extent.byte_count for extent in found)
    size = max(1, min(partition_bytes, -(-total // partitions_min)))
    return list(_packed((piece for extent in found for piece in _cut(extent, size)), size))


def _cut(extent: Extent, size: int) -> Iterator[Extent]:
    """Pieces of nearly the same number of entries, each about `size` bytes or a single entry."""
    count = min(extent.entries, -(-extent.byte_count // size))
    if count <= 1:
        yield extent
        return
    borders = [extent.first_entry + extent.entries * index // count for index in range(count + 1)]
    for index in range(count):
        piece = _run(extent, borders[index], borders[index + 1] - 1)
        yield replace(
            piece,
            messages=None,
            skip=extent.skip if index == 0 else 0,
            limit=extent.limit if index == count - 1 else None,
        )


def _run(extent: Extent, first: int, last: int) -> Extent:
    share = extent.byte_count * (last - first + 1) // extent.entries
    return replace(extent, first_entry=first, last_entry=last, byte_count=share)


def _packed(pieces: Iterable[Extent], size: int) -> Iterator[Partition]:
    held: list[Extent] = []
    held_bytes = 0
    for piece in pieces:
        if held and held_bytes + piece.byte_count > size:
            yield Partition(extents=tuple(held))
            held, held_bytes = [], 0
        held.append(piece)
        held_bytes += piece.byte_count
    if held:
        yield Partition(extents=tuple(held))
