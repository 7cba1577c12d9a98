"""The part of a log's record that lists its ledgers, and its changes. Pure.

Invariants:

- Ids rise: through the pages, then through `recent`. Levels of `pages` fall or stay: the oldest page is the highest.
- A ledger with a lower id than `first_id` is not listed, although its page may still be there. So a trim needs no
  other page, and costs the same for one ledger and for a million.
- Only ledgers whose seal is recorded are in pages; the last KEPT_MIN ledgers never are.
- A page is written before the record refers to it, under a name that is used once. If the change of the record is
  refused, the page is garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from dlog.ledger_list.page import IndexPage, LedgerPage, Page, PageRef, ref_to
from dlog.model import ListedLedger

KEPT_MIN = 64
"""Ledgers that stay in the record when others move into a page."""
PAGE_LEDGERS = 64
"""Ledgers in a page; the record holds up to KEPT_MIN + PAGE_LEDGERS."""
PAGE_FANOUT = 64
"""Pages of one level that become one page of the next: three levels hold 16 million ledgers."""


@dataclass(frozen=True, slots=True)
class Listing:
    """`recent`: the newest ledgers, of which the last two may be unsealed."""

    pages: tuple[PageRef, ...] = ()
    recent: tuple[ListedLedger, ...] = ()
    first_id: int = 0
    """The lowest id that may be listed."""

    @property
    def in_pages(self) -> int:
        """Number of ledgers in pages, at most: those below `first_id` in the first page are counted."""
        return sum(page.ledgers for page in self.pages)


@dataclass(frozen=True, slots=True)
class NamedPage:
    """A page to be written before the record that refers to it."""

    name: str
    page: Page


def archived(listing: Listing, name_of: Callable[[int], str]) -> tuple[Listing, tuple[NamedPage, ...]]:
    """Move ledgers into pages until `recent` has its usual length; nothing, most of the time.

    `name_of`: a new name for the n-th page of this change.
    """
    written: list[NamedPage] = []

    def write(page: Page) -> PageRef:
        named = NamedPage(name_of(len(written)), page)
        written.append(named)
        return ref_to(named.name, page)

    pages, recent = list(listing.pages), listing.recent
    while len(recent) >= KEPT_MIN + PAGE_LEDGERS and all(
        one.seal is not None for one in recent[:PAGE_LEDGERS]
    ):
        pages.append(write(LedgerPage(recent[:PAGE_LEDGERS])))
        recent = recent[PAGE_LEDGERS:]
        _fold(pages, write)
    return replace(listing, pages=tuple(pages), recent=recent), tuple(written)


def _fold(pages: list[PageRef], write: Callable[[Page], PageRef]) -> None:
    """Replace the newest pages by one page above them where a level is full."""
    while True:
        level = pages[-1].level
        same = [page for page in pages if page.level == level]
        if len(same) < PAGE_FANOUT:
            return
        del pages[-len(same) :]
        pages.append(write(IndexPage(tuple(same))))


def without_below(listing: Listing, floor: int) -> tuple[Listing, tuple[ListedLedger, ...]]:
    """Take every ledger below `floor`, which is a listed id, out of the list.

    Returns what was in `recent` of them. Those in pages are found by `first_id`, and their pages stay until their
    ledgers are deleted (`without_pages_below`).
    """
    kept = tuple(one for one in listing.recent if one.ledger_id >= floor)
    return (
        replace(listing, recent=kept, first_id=max(listing.first_id, floor)),
        listing.recent[: len(listing.recent) - len(kept)],
    )


def without_pages_below(listing: Listing, deleted_below: int) -> tuple[Listing, tuple[PageRef, ...]]:
    """Drop the pages whose ledgers are all below `deleted_below`; returns them. Those below them are garbage, too."""
    kept = tuple(page for page in listing.pages if page.last_id >= deleted_below)
    return replace(listing, pages=kept), listing.pages[: len(listing.pages) - len(kept)]


def check_listing(listing: Listing) -> str | None:
    """Which invariant is broken; None if all hold."""
    bounds = [(page.first_id, page.last_id) for page in listing.pages]
    bounds += [(one.ledger_id, one.ledger_id) for one in listing.recent]
    if any(first > last for first, last in bounds):
        return "a page ends before it begins"
    if any(later[0] <= earlier[1] for earlier, later in pairwise(bounds)):
        return "the list is not strictly increasing"
    levels = [page.level for page in listing.pages]
    if levels != sorted(levels, reverse=True):
        return "a page of a higher level follows one of a lower level"
    if any(len(list(same)) >= PAGE_FANOUT for _, same in groupby(levels)):
        return "a level has too many pages"
    return None
