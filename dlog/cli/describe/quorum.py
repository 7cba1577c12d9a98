"""How many copies a ledger has, and whether that is what was configured. Pure."""

from __future__ import annotations

from dlog.core.degraded import wanted_quorum
from ledger.model import LedgerMetadata


def copies_text(newest: LedgerMetadata | None) -> str:
    """Replication of the newest ledger, and whether it is degraded (docs/log-semantics.md#rule-19b)."""
    if newest is None:
        return "-"
    quorum, wanted = newest.quorum, wanted_quorum(newest)
    text = f"{quorum.write} on {quorum.ensemble} bookies, {quorum.ack} before an acknowledgement"
    if wanted is None:
        return text
    more = f"the next ledger has {wanted.write} copies on {wanted.ensemble} bookies if as many are up"
    return f"degraded: {text}; {more}"


def copies_document(newest: LedgerMetadata | None) -> dict[str, object] | None:
    if newest is None:
        return None
    quorum = newest.quorum
    return {
        "ensemble": quorum.ensemble,
        "write": quorum.write,
        "ack": quorum.ack,
        "degraded": wanted_quorum(newest) is not None,
    }
