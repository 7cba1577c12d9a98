"""The only code that walks the list of a log's ledgers: find one, the next one, the one before, all of them.

A look-up reads one page of each level; a walk reads each page once. Of the pages read last a few are kept, so memory
does not depend on the length of the list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from dlog.ledger_list.listing import Listing
from dlog.ledger_list.page import UNKNOWN_TIME_US, LedgerPage, Page, PageRef
from dlog.model import ListedLedger

PAGES_KEPT = 8

ReadPage = Callable[[PageRef], Awaitable[Page]]
"""Raises if the page is missing or damaged: what it lists must not look as if it were not listed."""
_T = TypeVar("_T")


class PageCache:
    """Reads pages, and keeps those used last. May serve several lists of one log, since pages never change."""

    def __init__(self, read: ReadPage) -> None:
        self._read = read
        self._kept: OrderedDict[str, Page] = OrderedDict()
        self.reads = 0

    async def page(self, ref: PageRef) -> Page:
        found = self._kept.get(ref.name)
        if found is None:
            self.reads += 1
            found = await self._read(ref)
        self._kept[ref.name] = found
        self._kept.move_to_end(ref.name)
        if len(self._kept) > PAGES_KEPT:
            self._kept.popitem(last=False)
        return found


class LedgerList:
    """The ledgers that one record lists."""

    def __init__(self, listing: Listing, pages: PageCache) -> None:
        self._listing = listing
        self._pages = pages

    @property
    def tail(self) -> ListedLedger | None:
        """The newest ledger."""
        return self._listing.recent[-1] if self._listing.recent else None

    async def find(self, ledger_id: int) -> ListedLedger | None:
        """The ledger of this id; None if it is not listed."""
        found = await self.at_or_after(ledger_id)
        return found if found is not None and found.ledger_id == ledger_id else None

    async def first(self) -> ListedLedger | None:
        """The oldest ledger."""
        return await self.at_or_after(self._listing.first_id)

    async def next(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the lowest id above this one."""
        return await self.at_or_after(ledger_id + 1)

    async def at_or_after(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the lowest id that is not below this one."""
        wanted = max(ledger_id, self._listing.first_id)
        pages: Sequence[PageRef] = self._listing.pages
        while (ref := _first_at(pages, wanted, _last_id)) is not None:
            page = await self._pages.page(ref)
            if isinstance(page, LedgerPage):
                return _first_at(page.ledgers, wanted, _ledger_id)
            pages = page.pages
        return _first_at(self._listing.recent, wanted, _ledger_id)

    async def at_or_before(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the highest id that is not above this one."""
        found = _last_at(self._listing.recent, ledger_id, _ledger_id)
        pages: Sequence[PageRef] = self._listing.pages
        while found is None and (ref := _last_at(pages, ledger_id, _first_id)) is not None:
            page = await self._pages.page(ref)
            if isinstance(page, LedgerPage):
                found = _last_at(page.ledgers, ledger_id, _ledger_id)
                break
            pages = page.pages
        return found if found is not None and found.ledger_id >= self._listing.first_id else None

    async def from_time(self, time_us: int, start: int = 0) -> ListedLedger | None:
        """The first ledger, of id `start` or above, that may have a message appended at or after the time.

        None: all of them are older. One whose newest append time is unknown may have such a message.
        """
        start = max(start, self._listing.first_id)
        found = await self._from_time(self._listing.pages, time_us, start)
        return found or _first_that_may_have(self._listing.recent, time_us, start)

    async def _from_time(self, pages: Sequence[PageRef], time_us: int, start: int) -> ListedLedger | None:
        for ref in pages:
            is_older = UNKNOWN_TIME_US != ref.last_append_us < time_us
            if is_older or ref.last_id < start:
                continue
            page = await self._pages.page(ref)
            if isinstance(page, LedgerPage):
                found = _first_that_may_have(page.ledgers, time_us, start)
            else:
                found = await self._from_time(page.pages, time_us, start)
            if found is not None:
                return found
        return None

    async def walk(self, start: int = 0) -> AsyncIterator[ListedLedger]:
        """Every listed ledger from this id on, oldest first."""
        listed = await self.at_or_after(start)
        while listed is not None:
            yield listed
            listed = await self.next(listed.ledger_id)

    async def walk_back(self, end: int | None = None) -> AsyncIterator[ListedLedger]:
        """Every listed ledger up to this id, newest first."""
        tail = self.tail
        if tail is None:
            return
        listed = await self.at_or_before(tail.ledger_id if end is None else end)
        while listed is not None:
            yield listed
            listed = await self.at_or_before(listed.ledger_id - 1)


def may_have(listed: ListedLedger, time_us: int) -> bool:
    """Whether the ledger may have a message appended at or after the time."""
    seal = listed.seal
    if seal is None:
        return True
    return seal.last_entry >= 0 and not UNKNOWN_TIME_US != seal.last_append_us < time_us


def _first_that_may_have(ledgers: Sequence[ListedLedger], time_us: int, start: int) -> ListedLedger | None:
    return next((one for one in ledgers if one.ledger_id >= start and may_have(one, time_us)), None)


def _first_at(items: Sequence[_T], wanted: int, key: Callable[[_T], int]) -> _T | None:
    at = bisect_left(items, wanted, key=key)
    return items[at] if at < len(items) else None


def _last_at(items: Sequence[_T], wanted: int, key: Callable[[_T], int]) -> _T | None:
    at = bisect_right(items, wanted, key=key)
    return items[at - 1] if at else None


def _ledger_id(listed: ListedLedger) -> int:
    return listed.ledger_id


def _first_id(ref: PageRef) -> int:
    return ref.first_id


def _last_id(ref: PageRef) -> int:
    return ref.last_id
