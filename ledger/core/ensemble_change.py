"""Replacing failed members of the last fragment: whether it is needed, and the metadata that results. Pure.

Only an OPEN ledger is changed, so a recovery or a close that came first is never overwritten; the new fragment
starts at LAC + 1, and one with the same start replaces the last (docs/bookkeeper.md#ensemble-change).

Pitfalls: docs/pitfalls.md#change-of-a-closed-ledger, #one-bookie-twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState


def needs_change(metadata: LedgerMetadata, failed: Mapping[int, BookieId]) -> bool:
    """True while the ledger is open and a failed bookie still holds its position."""
    ensemble = metadata.last_fragment.ensemble
    return metadata.state is LedgerState.OPEN and any(
        ensemble[position] == bookie_id for position, bookie_id in failed.items()
    )


def change(
    metadata: LedgerMetadata, first_entry: EntryId, replacements: Mapping[int, tuple[BookieId, BookieId]]
) -> LedgerMetadata:
    """Metadata with old → new at each position that the old bookie still holds.

    A new bookie that is a member already is left out: two copies on one disk are one copy.
    """
    ensemble = list(metadata.last_fragment.ensemble)
    for position, (old, new) in replacements.items():
        if ensemble[position] == old and new not in ensemble:
            ensemble[position] = new
    return metadata.with_fragment(Fragment(first_entry, tuple(ensemble)))
