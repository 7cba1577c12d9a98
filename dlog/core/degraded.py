"""Fewer bookies than wanted: which quorum a log may fall back to. Pure (docs/log-semantics.md#rule-19b)."""

from __future__ import annotations

from enum import StrEnum

from ledger.model import QuorumSizes


class DegradedPolicy(StrEnum):
    """Whether a log may be written with fewer bookies than configured (docs/log-semantics.md#rule-19b)."""

    ALLOW = "allow"
    """Use the live bookies, never fewer than the ack quorum; return to a full ensemble when there is one."""
    REFUSE = "refuse"
    """Create no ledger with less than the configured ensemble."""


def fallback_quorum(wanted: QuorumSizes, live_count: int, policy: DegradedPolicy) -> QuorumSizes | None:
    """The quorum to create with when fewer than `wanted.ensemble` bookies are alive; None to refuse.

    An ack means the configured number of durable copies in any case: the ack quorum never shrinks.
    """
    if policy == DegradedPolicy.REFUSE or live_count < wanted.ack or live_count >= wanted.ensemble:
        return None
    return QuorumSizes(ensemble=live_count, write=min(wanted.write, live_count), ack=wanted.ack)
