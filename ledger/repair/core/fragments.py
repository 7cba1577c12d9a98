"""Which fragments of a ledger are final, and which of their entries lie where. Pure.

Law: only a *closed* fragment is repaired, one to which nothing can be added any more: each fragment of a closed ledger,
and each but the last of another one. A fragment begins after the LAC, so everything before it is confirmed, and neither
a writer nor a recovery touches it again. The last fragment of an open ledger belongs to its writer, which replaces a
lost bookie itself (docs/pitfalls.md#repair-of-an-open-fragment).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from ledger.core.distribution import holds
from ledger.model import BookieId, LedgerMetadata, QuorumSizes


@dataclass(frozen=True, slots=True)
class StripedEntries(Sequence[int]):
    """Entries that a member of a striped fragment must hold, ascending. Counted, not listed: there may be millions."""

    first: int
    turn: tuple[int, ...]
    """Which of `size` entries in a row it holds, counted from `first`."""
    size: int
    length: int

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        numbers = range(self.length)[index]
        return self._at(numbers) if isinstance(numbers, int) else [self._at(each) for each in numbers]

    def _at(self, number: int) -> int:
        turns, offset = divmod(number, len(self.turn))
        return self.first + turns * self.size + self.turn[offset]


@dataclass(frozen=True, slots=True)
class ClosedFragment:
    """Entries `first` to `last`; none if `last` is below `first`."""

    first: int
    last: int
    ensemble: tuple[BookieId, ...]
    quorum: QuorumSizes

    def entries_at(self, position: int) -> Sequence[int]:
        """The entries that the member at `position` must hold, ascending. Takes no memory for each of them."""
        size = self.quorum.ensemble
        if size == self.quorum.write:
            return range(self.first, self.last + 1)
        turn = tuple(offset for offset in range(size) if holds(position, self.first + offset, self.quorum))
        turns, rest = divmod(max(0, self.last + 1 - self.first), size)
        count = turns * len(turn) + sum(offset < rest for offset in turn)
        return StripedEntries(self.first, turn, size, count)

    def ends_at(self, position: int, percentage: int = 0) -> list[int]:
        """The first and the last of them, and this percentage of those between, evenly spread."""
        held = self.entries_at(position)
        if not held:
            return []
        inner = max(0, len(held) - 2)
        count = inner * percentage // 100
        sample = (1 + number * inner // count for number in range(count))
        return [held[number] for number in sorted({0, *sample, len(held) - 1})]


def is_among(entry_id: int, entry_ids: Sequence[int]) -> bool:
    """Whether it is one of these, which ascend; without a look at all of them."""
    at = bisect_left(entry_ids, entry_id)
    return at < len(entry_ids) and entry_ids[at] == entry_id


def closed_fragments(metadata: LedgerMetadata) -> list[ClosedFragment]:
    fragments = metadata.fragments if metadata.closed else metadata.fragments[:-1]
    ends = [fragment.first_entry - 1 for fragment in metadata.fragments[1:]]
    if metadata.closed:
        ends = [min(end, metadata.last_entry) for end in [*ends, metadata.last_entry]]
    return [
        ClosedFragment(fragment.first_entry, end, fragment.ensemble, metadata.quorum)
        for fragment, end in zip(fragments, ends, strict=True)
    ]


def open_ensemble(metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """The ensemble that may still be written to; empty once the ledger is closed."""
    return () if metadata.closed else metadata.last_fragment.ensemble
