"""Errors for refusals by bookies: the same sentence wherever one occurs."""

from __future__ import annotations

from ledger.errors import EntryTooLargeError, LedgerFencedError, UnauthorizedError


def unauthorized(bookie_id: str, ledger_id: int) -> UnauthorizedError:
    """EUA: a bookie has one status for two reasons, which its client cannot distinguish."""
    return UnauthorizedError(
        f"bookie {bookie_id} refuses this client (EUA): either ledger {ledger_id} has another password there, or the "
        "bookie takes only clients that authenticate themselves or use TLS, which this one does not",
        ledger_id=ledger_id,
        bookie_id=bookie_id,
    )


def fenced(ledger_id: int) -> LedgerFencedError:
    """EFENCED, to its writer."""
    return LedgerFencedError(
        f"ledger {ledger_id} was fenced by another client; this writer has lost it", ledger_id=ledger_id
    )


def too_large(payload_bytes: int, overhead_bytes: int, entry_bytes_max: int) -> EntryTooLargeError:
    """Refused here, before anything is sent."""
    return EntryTooLargeError(
        f"entry of {payload_bytes} bytes plus {overhead_bytes} of header exceeds the limit of {entry_bytes_max}; "
        "split it",
        entry_bytes=payload_bytes + overhead_bytes,
        entry_bytes_max=entry_bytes_max,
    )
