"""How a ledger's metadata changes: ensemble changes, the writer's close, recovery's mark and close. Pure.

Each change is a pair for `update_loop.update_ledger`: whether it is still needed by what metadata says now, and the
metadata that results. Invariant: CLOSED is terminal, and only an OPEN ledger changes its ensemble, so a recovery or
a close that came first is never overwritten.

Protocol: docs/bookkeeper.md#ensemble-change, #close, #recovery-close.
Pitfalls: docs/pitfalls.md#change-of-a-closed-ledger, #one-bookie-twice, #close-race, #paused-recoverer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.errors import LedgerFencedError
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata, LedgerState

# ---- replacing failed members of the last fragment


def needs_replacement(metadata: LedgerMetadata, failed: Mapping[int, BookieId]) -> bool:
    """True while the ledger is open and a failed bookie still holds its position."""
    ensemble = metadata.last_fragment.ensemble
    return metadata.state is LedgerState.OPEN and any(
        ensemble[position] == bookie_id for position, bookie_id in failed.items()
    )


def replace_members(
    metadata: LedgerMetadata, first_entry: EntryId, replacements: Mapping[int, tuple[BookieId, BookieId]]
) -> LedgerMetadata:
    """Metadata with old → new at each position that the old bookie still holds.

    The new fragment starts at `first_entry`, the writer's LAC + 1; one with the same start replaces the last. A new
    bookie that is a member already is left out: two copies on one disk are one copy.
    """
    ensemble = list(metadata.last_fragment.ensemble)
    for position, (old, new) in replacements.items():
        if ensemble[position] == old and new not in ensemble:
            ensemble[position] = new
    return metadata.with_fragment(Fragment(first_entry, tuple(ensemble)))


# ---- the writer's close


def needs_close(ledger_id: LedgerId, metadata: LedgerMetadata, last_entry: EntryId, length: int) -> bool:
    """Whether the writer still has to write CLOSED; False if it is closed at exactly this entry and length.

    One choice is stricter than Java's client: IN_RECOVERY met by the writer's close means that another client
    recovers the ledger, and is reported as that instead of being overwritten.

    Raises:
        LedgerFencedError: another client closes or closed it.
    """
    if metadata.state is LedgerState.OPEN:
        return True
    if metadata.closed and (metadata.last_entry, metadata.length) == (last_entry, length):
        return False
    found = (
        f"closed at entry {metadata.last_entry}" if metadata.closed else "being recovered by another client"
    )
    raise LedgerFencedError(
        f"ledger {ledger_id} is {found}, this writer confirmed entry {last_entry}; it has lost the ledger",
        ledger_id=ledger_id,
        last_entry=metadata.last_entry if metadata.closed else None,
    )


# ---- recovery


def needs_recovery_mark(metadata: LedgerMetadata) -> bool:
    """True while the ledger is open: its writer's next change of metadata must fail."""
    return metadata.state is LedgerState.OPEN


def mark_in_recovery(metadata: LedgerMetadata) -> LedgerMetadata:
    """IN_RECOVERY, the rest as it is."""
    return metadata.with_state(LedgerState.IN_RECOVERY)


def needs_recovery_close(metadata: LedgerMetadata) -> bool:
    """False once any client has closed it: its result is adopted."""
    return metadata.state is LedgerState.IN_RECOVERY


def closed_by_recovery(
    metadata: LedgerMetadata, changes: Sequence[Fragment], last_entry: EntryId, length: int
) -> LedgerMetadata:
    """CLOSED at `last_entry`, with the ensembles that this recovery wrote back to."""
    for fragment in changes:
        metadata = metadata.with_fragment(fragment)
    return metadata.closed_at(last_entry, length)
