"""Fewer bookies than wanted: which quorum a log may fall back to. Pure (docs/log-semantics.md#rule-19b)."""

from __future__ import annotations

from enum import StrEnum

from dlog.core.metadata_keys import TAG_WANTED_QUORUM
from ledger.digits import whole_number
from ledger.errors import ConfigurationError
from ledger.model import LedgerMetadata, QuorumSizes

_SIZE_MAX = 2**31 - 1
"""As wide as metadata of ledgers has it."""


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


def fallback_tags(wanted: QuorumSizes) -> tuple[tuple[str, bytes], ...]:
    """Custom metadata of a ledger with a `fallback_quorum`: what was configured, which no reader can know otherwise."""
    return ((TAG_WANTED_QUORUM, f"{wanted.ensemble},{wanted.write},{wanted.ack}".encode()),)


def wanted_quorum(metadata: LedgerMetadata) -> QuorumSizes | None:
    """What was configured for a ledger that got fewer bookies; None if it is not degraded, or the tag is damaged."""
    value = metadata.custom_value(TAG_WANTED_QUORUM)
    if value is None:
        return None
    match [whole_number(each, _SIZE_MAX) for each in value.split(b",")]:
        case [int() as ensemble, int() as write, int() as ack]:
            try:
                return QuorumSizes(ensemble=ensemble, write=write, ack=ack)
            except ConfigurationError:
                return None
    return None
