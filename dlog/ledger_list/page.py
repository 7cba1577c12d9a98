"""Pages of a log's history. Pure.

A page of level 0 lists sealed ledgers. A page of a higher level lists pages of the level below. A page never changes;
its name is used once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dlog.model import ListedLedger, PageRef

UNKNOWN_TIME_US = 0


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Sealed ledgers, ascending."""

    ledgers: tuple[ListedLedger, ...]

    @property
    def level(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Pages of the level below, ascending."""

    level: int
    pages: tuple[PageRef, ...]


Page = LedgerPage | IndexPage


def ref_to(name: str, page: Page) -> PageRef:
    """What is known of a page once it is named."""
    return _ref_to_ledgers(name, page.ledgers) if isinstance(page, LedgerPage) else _ref_to_pages(name, page)


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
        message_count=sum(max(0, seal.message_count) for seal in seals),
        uncounted=sum(seal.message_count < 0 for seal in seals),
        byte_count=sum(seal.byte_count for seal in seals),
        last_append_us=_newest(times),
    )


def _ref_to_pages(name: str, page: IndexPage) -> PageRef:
    pages = page.pages
    return PageRef(
        name=name,
        level=page.level,
        first_id=pages[0].first_id,
        last_id=pages[-1].last_id,
        ledgers=sum(page.ledgers for page in pages),
        message_count=sum(page.message_count for page in pages),
        uncounted=sum(page.uncounted for page in pages),
        byte_count=sum(page.byte_count for page in pages),
        last_append_us=_newest([page.last_append_us for page in pages]),
    )


def _newest(times: Sequence[int]) -> int:
    return UNKNOWN_TIME_US if UNKNOWN_TIME_US in times else max(times, default=UNKNOWN_TIME_US)


def broken_page_rule(page: Page) -> str | None:
    """Which rule a page breaks; None if it obeys all."""
    if isinstance(page, LedgerPage):
        if any(listed.seal is None for listed in page.ledgers):
            return "it lists a ledger without a seal"
        bounds: list[tuple[int, int]] = [(one.ledger_id, one.ledger_id) for one in page.ledgers]
    else:
        if any(ref.level != page.level - 1 for ref in page.pages):
            return f"a page of level {page.level} refers to pages of another level than the one below"
        bounds = [(ref.first_id, ref.last_id) for ref in page.pages]
    return "it is empty" if not bounds else broken_order(bounds)


def broken_order(bounds: Sequence[tuple[int, int]]) -> str | None:
    """What is wrong with the first and last ids of parts of the list; None if they rise."""
    if any(first > last for first, last in bounds):
        return "a page ends before it begins"
    if any(later[0] <= earlier[1] for earlier, later in pairwise(bounds)):
        return "the ledger list is not strictly increasing"
    return None
