"""Splits ranges of logs into Spark partitions. Pure.

    extents    the part of each ledger in the range, as planning knows it, by log and in list order
    pieces     extents cut at entry borders, none much larger than a partition should be; with a limit in messages
               further cut at messages
    partitions neighbouring pieces packed up to the wanted size; of one log or of several

Every partition knows its exact number of entries, since a ledger's entry ids have no holes, and the exact
number of messages wherever planning could learn it (docs/decisions/0001-spark-partition-counts.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dlog.model import MessageId

LEDGERS_MAX = 500
"""Of a partition: opening a ledger takes a task a few milliseconds, however small it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A run of one ledger's entries: `first_entry` to `last_entry`, both included.

    `skip` messages of the first entry and, where `limit` is given, all from index `limit` of the last entry
    on are outside the range. `byte_count` only balances work, so it may be an estimate; `messages` is exact
    or None.
    """

    log: str
    """Name of the log that has the ledger."""
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
    """One task's work: extents, those of a log in its order."""

    extents: tuple[Extent, ...]


def within_bounds(extent: Extent, start: MessageId, end: MessageId) -> Extent | None:
    """The part of an extent with start <= id < end, or None if nothing is left.

    Its message count stays known only if nothing was cut off; its bytes shrink with its entries.
    """
    if start <= extent.start and extent.end <= end:
        return extent
    first, skip = extent.first_entry, extent.skip
    if start > extent.start:
        if start.ledger_id > extent.ledger_id:
            return None
        first, skip = start.entry_id, start.batch_index
    last, limit = extent.last_entry, extent.limit
    if end < extent.end:
        if end.ledger_id < extent.ledger_id:
            return None
        last, limit = (end.entry_id, end.batch_index) if end.batch_index else (end.entry_id - 1, None)
    if first > last or (first == last and limit is not None and skip >= limit):
        return None
    return replace(_run(extent, first, last), skip=skip, limit=limit, messages=None)


def between(extents: Iterable[Extent], start: MessageId, end: MessageId) -> list[Extent]:
    """The parts of one log's extents with start <= id < end."""
    parts = (within_bounds(extent, start, end) for extent in extents)
    return [part for part in parts if part is not None]


def partition_size(extents: Iterable[Extent], *, partition_bytes: int, partitions_min: int = 1) -> int:
    """Bytes of a partition: what is wanted, or less if that would make too few."""
    total = sum(extent.byte_count for extent in extents)
    return max(1, min(partition_bytes, -(-total // partitions_min)))


def pieces(extents: Iterable[Extent], size: int) -> list[Extent]:
    """The same ranges, with large ledgers cut at entry borders into pieces of about `size` bytes."""
    return [piece for extent in extents for piece in _cut(extent, size)]


def shares_of(messages: int, most: int) -> list[int]:
    """Where to cut this number of messages into the fewest parts of at most `most`: how many are before each cut."""
    count = -(-messages // most)
    return [messages * number // count for number in range(1, count)]


def cut_at(extent: Extent, ids: Sequence[MessageId], counts: Sequence[int]) -> list[Extent]:
    """The parts of an extent whose messages are counted: `ids` are those after its first `counts` messages."""
    assert extent.messages is not None, "its messages are counted"
    borders = [extent.start, *ids, extent.end]
    numbers = [0, *counts, extent.messages]
    found: list[Extent] = []
    for (start, end), (before, through) in zip(pairwise(borders), pairwise(numbers), strict=True):
        part = within_bounds(extent, start, end)
        assert part is not None, "every part has messages"
        found.append(replace(part, messages=through - before))
    return found


def packed(pieces: Iterable[Extent], size: int, messages_max: int | None = None) -> Iterator[Partition]:
    """Partitions of neighbouring pieces: of `size` bytes and, if it is given, of `messages_max` messages at most.

    A piece that alone has more bytes is a partition of its own. With `messages_max` the pieces are counted, and none
    has more.
    """
    held: list[Extent] = []
    held_bytes = held_messages = 0
    for piece in pieces:
        messages = 0 if messages_max is None else _counted(piece)
        is_full = held_bytes + piece.byte_count > size or len(held) == LEDGERS_MAX
        if held and (is_full or (messages_max is not None and held_messages + messages > messages_max)):
            yield Partition(extents=tuple(held))
            held, held_bytes, held_messages = [], 0, 0
        held.append(piece)
        held_bytes += piece.byte_count
        held_messages += messages
    if held:
        yield Partition(extents=tuple(held))


def _counted(piece: Extent) -> int:
    assert piece.messages is not None, "a limit in messages needs their number"
    return piece.messages


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
