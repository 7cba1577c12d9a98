"""Pages of a log's history, and what a record or a page above knows of one. Pure.

A page of level 0 lists sealed ledgers. A page of a higher level lists pages of the level below. A page never changes;
its name is used once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlog.model import ListedLedger

NOT_COUNTED = -1
UNKNOWN_TIME_US = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRef:
    """Where a page is, and what its ledgers have in common, so that most of them need not be read."""

    name: str
    level: int
    first_id: int
    """Of the first ledger below it."""
    last_id: int
    """Of the last one."""
    ledgers: int
    """Number of ledgers below it."""
    message_count: int
    """NOT_COUNTED if one of the ledgers was not counted."""
    byte_count: int
    last_append_us: int
    """Newest append time below it. UNKNOWN_TIME_US if one of the ledgers that have entries does not know its own."""


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Sealed ledgers, ascending."""

    ledgers: tuple[ListedLedger, ...]


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Pages of one level, ascending."""

    pages: tuple[PageRef, ...]


Page = LedgerPage | IndexPage


def ref_to(name: str, page: Page) -> PageRef:
    """What is known of a page once it is named."""
    return (
        _ref_to_ledgers(name, page.ledgers)
        if isinstance(page, LedgerPage)
        else _ref_to_pages(name, page.pages)
    )


def _ref_to_ledgers(name: str, ledgers: Sequence[ListedLedger]) -> PageRef:
    seals = [listed.seal for listed in ledgers if listed.seal is not None]
    assert len(seals) == len(ledgers), "only ledgers whose seal is recorded move into a page"
    times = [seal.last_append_us for seal in seals if seal.last_entry >= 0]
    return PageRef(
        name=name,
        level=0,
        first_id=ledgers[0].ledger_id,
        last_id=ledgers[-1].ledger_id,
        ledgers=len(ledgers),
        message_count=_sum_counted([seal.message_count for seal in seals]),
        byte_count=sum(seal.byte_count for seal in seals),
        last_append_us=_newest(times),
    )


def _ref_to_pages(name: str, pages: Sequence[PageRef]) -> PageRef:
    return PageRef(
        name=name,
        level=pages[0].level + 1,
        first_id=pages[0].first_id,
        last_id=pages[-1].last_id,
        ledgers=sum(page.ledgers for page in pages),
        message_count=_sum_counted([page.message_count for page in pages]),
        byte_count=sum(page.byte_count for page in pages),
        last_append_us=_newest([page.last_append_us for page in pages]),
    )


def _sum_counted(counts: Sequence[int]) -> int:
    return NOT_COUNTED if NOT_COUNTED in counts else sum(counts)


def _newest(times: Sequence[int]) -> int:
    return UNKNOWN_TIME_US if UNKNOWN_TIME_US in times else max(times, default=UNKNOWN_TIME_US)
