"""Entry id → write set: round robin over the ensemble (docs/bookkeeper.md#striping)."""

from __future__ import annotations

from ledger.model import QuorumSizes


def write_set(entry_id: int, quorum: QuorumSizes) -> tuple[int, ...]:
    """Ensemble positions that hold `entry_id`, in the order in which readers ask them."""
    return tuple((entry_id + offset) % quorum.ensemble for offset in range(quorum.write))


def holds(position: int, entry_id: int, quorum: QuorumSizes) -> bool:
    """True if the member at `position` belongs to the write set of `entry_id`."""
    return (position - entry_id) % quorum.ensemble < quorum.write


def write_sets(quorum: QuorumSizes) -> tuple[tuple[int, ...], ...]:
    """Every distinct write set; one if the ensemble is no larger than the write quorum."""
    if quorum.ensemble == quorum.write:
        return (tuple(range(quorum.ensemble)),)
    return tuple(write_set(start, quorum) for start in range(quorum.ensemble))
