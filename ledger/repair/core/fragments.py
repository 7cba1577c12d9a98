"""Which fragments of a ledger are final, and which of their entries lie where. Pure.

Law: only a *closed* fragment is repaired, one to which nothing can be added any more: each fragment of a closed ledger,
and each but the last of another one. A fragment begins after the LAC, so everything before it is confirmed, and neither
a writer nor a recovery touches it again. The last fragment of an open ledger belongs to its writer, which replaces a
lost bookie itself (docs/pitfalls.md#repair-of-an-open-fragment).
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core.distribution import holds
from ledger.model import BookieId, LedgerMetadata, QuorumSizes


@dataclass(frozen=True, slots=True)
class ClosedFragment:
    """Entries `first` to `last`; none if `last` is below `first`."""

    first: int
    last: int
    ensemble: tuple[BookieId, ...]
    quorum: QuorumSizes

    def entries_at(self, position: int) -> list[int]:
        """The entries that the member at `position` must hold, ascending."""
        if self.quorum.ensemble == self.quorum.write:
            return list(range(self.first, self.last + 1))
        return [each for each in range(self.first, self.last + 1) if holds(position, each, self.quorum)]

    def ends_at(self, position: int, percentage: int = 0) -> list[int]:
        """The first and the last of them, and this percentage of those between, evenly spread."""
        # Counted, not listed: a fragment may have many millions of entries.
        size = self.quorum.ensemble
        turn = [offset for offset in range(size) if holds(position, self.first + offset, self.quorum)]
        turns, rest = divmod(max(0, self.last + 1 - self.first), size)
        held = turns * len(turn) + sum(offset < rest for offset in turn)
        inner = max(0, held - 2)
        count = inner * percentage // 100
        sample = (1 + number * inner // count for number in range(count))
        numbers = sorted({0, *sample, held - 1}) if held else []
        return [self.first + number // len(turn) * size + turn[number % len(turn)] for number in numbers]


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
