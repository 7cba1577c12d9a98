"""What a bookie's EUA means, in words: the same sentence wherever it comes."""

from __future__ import annotations

from ledger.errors import UnauthorizedError


def unauthorized(bookie_id: str, ledger_id: int) -> UnauthorizedError:
    """A bookie has one status for two reasons, and its client cannot tell which of them it is."""
    return UnauthorizedError(
        f"bookie {bookie_id} refuses this client (EUA): either ledger {ledger_id} has another password there, or the "
        "bookie takes only clients that authenticate themselves or use TLS, which this one does not",
        ledger_id=ledger_id,
        bookie_id=bookie_id,
    )
