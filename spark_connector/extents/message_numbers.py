"""Finds messages of an extent by number, without reading all of it.

Each entry says how many messages of its ledger are before it, so the messages of an extent are counted from its first
and its last entry, and a message is found with a few entries more. Entries of releases that did not count do not say
it; then all of them must be read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dlog.errors import EntryFormatError
from dlog.format.entry import Envelope
from dlog.model import MessageId
from spark_connector.extents.partitions import Extent


@dataclass(frozen=True, slots=True)
class _Entry:
    entry_id: int
    before: int
    """Messages in earlier entries of the ledger."""
    count: int

    @property
    def through(self) -> int:
        return self.before + self.count


class NotNumberedError(Exception):
    """An entry does not say how many messages are before it."""


def cut_of(extent: Extent, entry_id: int, count: int) -> tuple[int, int]:
    """Which of the entry's messages belong to the extent: from index, to index."""
    skipped = extent.skip if entry_id == extent.first_entry else 0
    limit = count
    if extent.limit is not None and entry_id == extent.last_entry:
        limit = min(extent.limit, count)
    return min(skipped, limit), limit


class MessageNumbers:
    """Of one extent. `read` returns the envelope of an entry; each entry is read once."""

    def __init__(self, extent: Extent, read: Callable[[int], Awaitable[Envelope]]) -> None:
        self._extent = extent
        self._read = read
        self._known: dict[int, _Entry] = {}

    async def find(self, numbers: Sequence[int]) -> tuple[list[MessageId], int]:
        """The ids after the first N messages, for each N that the extent has; and how many it has.

        `numbers`: ascending, from 1 on.

        Raises:
            NotNumberedError: the entries of the extent do not say how many messages are before them.
            EntryFormatError: what two entries say contradicts each other.
        """
        extent = self._extent
        first, last = await self._entry(extent.first_entry), await self._entry(extent.last_entry)
        start = first.before + cut_of(extent, first.entry_id, first.count)[0]
        total = last.before + cut_of(extent, last.entry_id, last.count)[1] - start
        if total < 0:
            raise self._contradiction(last)
        found = []
        for number in numbers:
            if number > total:
                break
            first, position = await self._after(start + number, first, last)
            found.append(position)
        return found, total

    async def _after(self, number: int, first: _Entry, last: _Entry) -> tuple[_Entry, MessageId]:
        """The id after the first `number` messages of the ledger, which is in `first` to `last`; and its entry."""
        low, high = first.entry_id, last.entry_id
        before_low, through_high = first.before, last.through
        halve = False
        # Invariant: message `number` is in an entry from `low` to `high`; `before_low` messages are before these
        # entries, `through_high` up to their end.
        while low <= high:
            guess = (high - low + 1) * (number - 1 - before_low) // max(1, through_high - before_low)
            middle = (low + high) // 2 if halve else min(high, low + max(0, guess))
            halve = not halve  # entries of very different sizes mislead every guess
            entry = await self._entry(middle)
            if number <= entry.before:
                high, through_high = middle - 1, entry.before
            elif number > entry.through:
                low, before_low = middle + 1, entry.through
            elif number == entry.through:
                return entry, MessageId(self._extent.ledger_id, middle + 1, 0)
            else:
                return entry, MessageId(self._extent.ledger_id, middle, number - entry.before)
        raise self._contradiction(entry)

    async def _entry(self, entry_id: int) -> _Entry:
        if entry_id not in self._known:
            envelope = await self._read(entry_id)
            if envelope.messages_before is None:
                raise NotNumberedError
            self._known[entry_id] = _Entry(entry_id, envelope.messages_before, envelope.count)
        return self._known[entry_id]

    def _contradiction(self, entry: _Entry) -> EntryFormatError:
        return EntryFormatError(
            f"entry {entry.entry_id} of ledger {self._extent.ledger_id} has {entry.count} messages after "
            f"{entry.before} others, and another entry contradicts that: one of them is damaged"
        )
