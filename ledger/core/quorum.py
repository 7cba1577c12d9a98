"""Quorum mathematics: ack quorums over many entries in one step, coverage, proof of absence. Pure.

Sets of entries are bitmaps in plain integers: bit i stands for entry `base + i`. One expression then decides
thousands of entries, whatever the striping and however acknowledgements interleave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ledger.core.distribution import write_sets
from ledger.model import QuorumSizes


def at_least(count: int, bitmaps: Iterable[int]) -> int:
    """Bits that are set in `count` or more of `bitmaps`."""
    # reached[k] holds the bits seen k times so far; one more bitmap lifts them from k - 1 to k.
    reached = [0] * (count + 1)
    reached[0] = -1
    for bitmap in bitmaps:
        for k in range(count, 0, -1):
            reached[k] |= reached[k - 1] & bitmap
    return reached[count]


def trailing_ones(bitmap: int) -> int:
    """Number of the lowest bits that are set without a gap."""
    return (~bitmap & (bitmap + 1)).bit_length() - 1


def covered(known: Collection[int], quorum: QuorumSizes) -> bool:
    """True if no write set has an ack quorum of members outside `known`.

    Then every entry that reached, or can still reach, its ack quorum has a copy at a known member
    (docs/bookkeeper.md#coverage; with E = Qw this needs Qw - Qa + 1 answers). Never a plain count:
    docs/pitfalls.md#fences-counted-without-striping.
    """
    return all(
        sum(position not in known for position in members) < quorum.ack for members in write_sets(quorum)
    )


def writable(alive: Collection[int], quorum: QuorumSizes) -> bool:
    """True if every write set still has an ack quorum of members in `alive`."""
    return all(sum(position in alive for position in members) >= quorum.ack for members in write_sets(quorum))


def absence_proved(negative_count: int, quorum: QuorumSizes) -> bool:
    """True if enough members of the entry's write set deny it that it cannot have reached its ack quorum.

    Only explicit denials count; an error, a timeout or a damaged copy is none
    (docs/bookkeeper.md#recovery-reads, docs/pitfalls.md#absence-by-the-first-denial).
    """
    return negative_count >= quorum.write - quorum.ack + 1


def stored_on_quorum(values: list[int], quorum: QuorumSizes) -> int:
    """The largest value that an ack quorum of some write set has reached. `values` go by position."""
    if quorum.ensemble == quorum.write:
        return sorted(values)[-quorum.ack]
    best = -1
    for members in write_sets(quorum):
        ranked = sorted((values[position] for position in members), reverse=True)
        best = max(best, ranked[quorum.ack - 1])
    return best
