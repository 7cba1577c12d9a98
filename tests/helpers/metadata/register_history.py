"""Ledger metadata in each of its states, and histories of a register that took these values."""

from __future__ import annotations

from dataclasses import replace

from dlog.testing.metadata.history import CallOutcome, RegisterCall, RegisterHistory
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes

B1, B2, B3 = (BookieId(f"b{n}:1") for n in (1, 2, 3))
OPEN = LedgerMetadata(
    quorum=QuorumSizes(ensemble=2, write=2, ack=1), fragments=(Fragment(EntryId(0), (B1, B2)),)
)
CHANGED = OPEN.with_fragment(Fragment(EntryId(5), (B1, B3)))
RECOVERING = CHANGED.with_state(LedgerState.IN_RECOVERY)
CLOSED = CHANGED.closed_at(EntryId(9), 100)
REPAIRED = replace(CLOSED, fragments=(Fragment(EntryId(0), (B1, B3)), CLOSED.fragments[1]))


def history(register: str, *values: bytes) -> RegisterHistory:
    found = RegisterHistory()
    found.calls += [
        RegisterCall("a", register, "write", version - 1, value, version, version, CallOutcome.DONE, version)
        for version, value in enumerate(values)
    ]
    return found
