"""Whether a bookie that has lost part of its journal lacks entries of a ledger, from metadata and what it holds. Pure.

Only closed fragments count: what must be there is known, and repair may bring it back. What the last fragment of an
open ledger lacks is its writer's matter, or that of a recovery.
"""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.storage.ranges import Range, ranges_between
from ledger.core.distribution import holds
from ledger.model import BookieId, LedgerMetadata
from ledger.repair.core.fragments import ClosedFragment, closed_fragments


def lacks_entries(metadata: LedgerMetadata, bookie_id: BookieId, held: Sequence[Range]) -> bool:
    """`held`: ranges of entries that the bookie has, ascending and disjoint."""
    return any(
        _lacks(fragment, fragment.ensemble.index(bookie_id), held)
        for fragment in closed_fragments(metadata)
        if bookie_id in fragment.ensemble
    )


def _lacks(fragment: ClosedFragment, position: int, held: Sequence[Range]) -> bool:
    return any(
        holds(position, entry_id, fragment.quorum)
        for first, last in ranges_between(fragment.first, fragment.last, held)
        for entry_id in range(first, last + 1)
    )
