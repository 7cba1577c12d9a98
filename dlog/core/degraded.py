"""Fewer bookies than wanted: which quorum a log may fall back to. Pure (docs/log-semantics.md#rule-19b)."""

from __future__ import annotations

from enum import StrEnum

from ledger.model import QuorumSizes


class DegradedPolicy(StrEnum):
    ALLOW = "allow"
    """Go on with the live bookies, never below the ack quorum; return to a full ensemble when there is one."""
    REFUSE = "refuse"
    """No ledger with less than the wanted ensemble."""


def fallback_quorum(wanted: QuorumSizes, live_count: int, policy: DegradedPolicy) -> QuorumSizes | None:
    """The quorum to create with when fewer than `wanted.ensemble` bookies are alive; None to refuse.

    An ack means the wanted number of durable copies whatever happens: the ack quorum never shrinks.
    """
    if policy == DegradedPolicy.REFUSE or live_count < wanted.ack or live_count >= wanted.ensemble:
        return None
    return QuorumSizes(ensemble=live_count, write=min(wanted.write, live_count), ack=wanted.ack)
