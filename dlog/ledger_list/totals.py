"""How much a log's list holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlog.model import ListedLedger, PageRef


@dataclass(frozen=True, slots=True)
class ListTotals:
    """Of all listed ledgers, by their recorded seals; one without a seal counts as a ledger only."""

    ledgers: int
    messages: int
    """Of the sealed ledgers that were counted."""
    uncounted: int
    """Number of the other sealed ledgers."""
    bytes: int
    deletable: int = 0
    """Number of ledgers that have left the list and are not deleted; they count nowhere else."""

    def without(self, other: ListTotals) -> ListTotals:
        """What is left of these if `other`, a part of them, is taken away."""
        return ListTotals(
            ledgers=self.ledgers - other.ledgers,
            messages=self.messages - other.messages,
            uncounted=self.uncounted - other.uncounted,
            bytes=self.bytes - other.bytes,
        )


def totals_of(pages: Sequence[PageRef], ledgers: Sequence[ListedLedger]) -> ListTotals:
    """Of whole pages and single ledgers together."""
    seals = [listed.seal for listed in ledgers if listed.seal is not None]
    return ListTotals(
        ledgers=sum(page.ledgers for page in pages) + len(ledgers),
        messages=sum(page.message_count for page in pages)
        + sum(max(0, seal.message_count) for seal in seals),
        uncounted=sum(page.uncounted for page in pages) + sum(seal.message_count < 0 for seal in seals),
        bytes=sum(page.byte_count for page in pages) + sum(seal.byte_count for seal in seals),
    )
