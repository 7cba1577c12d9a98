"""The part of a log's record that lists its ledgers, and how it stays short. Pure.

Invariants:

- Ids rise: through the pages, then through `ledgers`. Levels of `pages` fall or stay: the oldest page is the highest.
- A ledger in a page is not listed if its id is below `first_id`. So a trim changes no page, and costs the same for one
  ledger and for a million.
- Only ledgers whose seal is recorded are in pages, and never the newest KEPT_MIN ones.
- A page is written before the record refers to it, under a name that is used once. If the change of the record is
  refused, the page is garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby

from dlog.ledger_list.page import IndexPage, LedgerPage, Page, broken_order, ref_to
from dlog.ledger_list.trim_cut import PENDING_MAX
from dlog.model import ListedLedger, LogMetadata, PageRef

KEPT_MIN = 64
"""Ledgers that stay in the record when others move into a page."""
PAGE_LEDGERS = 64
"""Ledgers in a page; the record holds up to KEPT_MIN + PAGE_LEDGERS."""
PAGE_FANOUT = 64
"""Pages of one level that become one page of the next: three levels hold 16 million ledgers."""
PAGES_FROM_VERSION = 3
"""Of the record."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """When ledgers move into pages, and how many the record names that wait for deletion. Clients may differ in it."""

    kept_min: int = KEPT_MIN
    page_ledgers: int = PAGE_LEDGERS
    page_fanout: int = PAGE_FANOUT
    pending_max: int = PENDING_MAX


DEFAULT_SIZES = Sizes()
SHORT_SIZES = Sizes(kept_min=3, page_ledgers=2, page_fanout=2, pending_max=2)
"""Forced where lists in pages are tested: legal, and slow."""


@dataclass(frozen=True, slots=True)
class NamedPage:
    """A page to be written before the record that refers to it."""

    name: str
    page: Page


def archived(
    record: LogMetadata, name_of: Callable[[int, int], str], sizes: Sizes = DEFAULT_SIZES
) -> tuple[LogMetadata, tuple[NamedPage, ...]]:
    """Move ledgers into pages until the record has its usual length; nothing, most of the time.

    `name_of`: a name for a page of this level whose first ledger has this id.
    """
    if record.format_version < PAGES_FROM_VERSION:
        return record, ()
    written: list[NamedPage] = []

    def write(page: Page, first_id: int) -> PageRef:
        written.append(NamedPage(name_of(page.level, first_id), page))
        return ref_to(written[-1].name, page)

    pages, ledgers = list(record.pages), record.ledgers
    while len(ledgers) >= sizes.kept_min + sizes.page_ledgers and _all_sealed(ledgers[: sizes.page_ledgers]):
        pages.append(write(LedgerPage(ledgers[: sizes.page_ledgers]), ledgers[0].ledger_id))
        ledgers = ledgers[sizes.page_ledgers :]
        _fold(pages, write, sizes.page_fanout)
    if not written:
        return record, ()
    return replace(record, pages=tuple(pages), ledgers=ledgers), tuple(written)


def _all_sealed(ledgers: tuple[ListedLedger, ...]) -> bool:
    return all(listed.seal is not None for listed in ledgers)


def _fold(pages: list[PageRef], write: Callable[[Page, int], PageRef], fanout: int) -> None:
    """Replace the newest pages by one page above them where a level is full."""
    while True:
        level = pages[-1].level
        same = [page for page in pages if page.level == level]
        if len(same) < fanout:
            return
        del pages[-len(same) :]
        pages.append(write(IndexPage(level + 1, tuple(same)), same[0].first_id))


def broken_rule(record: LogMetadata) -> str | None:
    """Which rule of the list a record breaks; None if it obeys all."""
    bounds: list[tuple[int, int]] = [(page.first_id, page.last_id) for page in record.pages]
    bounds += [(listed.ledger_id, listed.ledger_id) for listed in record.ledgers]
    broken = broken_order(bounds)
    if broken is not None:
        return f"{broken}, it ends with {bounds[-5:]}"
    if bounds and bounds[-1][1] > record.last_ledger_id:
        return f"ledger {bounds[-1][1]} is listed, but the last ledger id is {record.last_ledger_id}"
    levels = [page.level for page in record.pages]
    if levels != sorted(levels, reverse=True):
        return "a page of a higher level follows one of a lower level"
    if any(len(list(same)) >= PAGE_FANOUT for _, same in groupby(levels)):
        return "a level has too many pages"
    if record.deleted_below > record.first_id:
        return f"ledgers below {record.deleted_below} are deleted, and the list begins at {record.first_id}"
    if record.ledgers and record.first_id > record.ledgers[0].ledger_id:
        return f"ledger {record.ledgers[0].ledger_id} is listed, and the list begins at {record.first_id}"
    return None
