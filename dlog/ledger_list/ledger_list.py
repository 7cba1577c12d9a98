"""The only code that walks the list of a log's ledgers: find one, the next one, the one before, all of them.

A look-up reads one page of each level; a walk reads each page once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from dlog.errors import HistoryPageError
from dlog.ledger_list.page import UNKNOWN_TIME_US, LedgerPage, Page
from dlog.ledger_list.totals import ListTotals, totals_of
from dlog.ledger_list.trim_cut import PENDING_MAX, TrimCut
from dlog.ledger_list.window import ListWindow
from dlog.model import ListedLedger, LogMetadata, MessageId, PageRef
from ledger.model import LedgerId

ReadPage = Callable[[PageRef], Awaitable[Page]]
"""Raises, HistoryPageError if the page is missing or damaged: what it lists must not look as if it were not listed."""
_WINDOW_MIN = 8
"""A window shorter than this is continued on the next page."""
_T = TypeVar("_T")


class LedgerList:
    """The ledgers that one record lists. Each method raises what reading a page raises."""

    def __init__(self, record: LogMetadata, read_page: ReadPage, pending_max: int = PENDING_MAX) -> None:
        self._record = record
        self._read_page = read_page
        self._pending_max = pending_max

    @property
    def record(self) -> LogMetadata:
        return self._record

    @property
    def tail(self) -> ListedLedger | None:
        """The newest ledger."""
        return self._record.tail

    async def find(self, ledger_id: int) -> ListedLedger | None:
        """The ledger of this id; None if it is not listed."""
        found = await self.at_or_after(ledger_id)
        return found if found is not None and found.ledger_id == ledger_id else None

    async def at_or_after(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the lowest id that is not below this one."""
        wanted = max(ledger_id, self._record.first_id)
        pages: Sequence[PageRef] = self._record.pages
        while (ref := _first_at(pages, wanted, _last_id)) is not None:
            page = await self._read_page(ref)
            if isinstance(page, LedgerPage):
                return _first_at(page.ledgers, wanted, _ledger_id)
            pages = page.pages
        return _first_at(self._record.ledgers, wanted, _ledger_id)

    async def at_or_before(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the highest id that is not above this one."""
        found = _last_at(self._record.ledgers, ledger_id, _ledger_id)
        pages: Sequence[PageRef] = self._record.pages
        while found is None and (ref := _last_at(pages, ledger_id, _first_id)) is not None:
            if ref.last_id < self._record.first_id:
                break  # it lists nothing any more, so it need not exist
            page = await self._read_page(ref)
            if isinstance(page, LedgerPage):
                found = _last_at(page.ledgers, ledger_id, _ledger_id)
                break
            pages = page.pages
        return found if found is not None and found.ledger_id >= self._record.first_id else None

    async def from_time(self, time_us: int, start: int = 0) -> ListedLedger | None:
        """The first ledger, of id `start` or above, that may have a message appended at or after the time.

        None: all of them are older. One whose newest append time is unknown may have such a message.
        """
        start = max(start, self._record.first_id)
        found = await self._from_time(self._record.pages, time_us, start)
        return found or _first_that_may_have(self._record.ledgers, time_us, start)

    async def _from_time(self, pages: Sequence[PageRef], time_us: int, start: int) -> ListedLedger | None:
        for ref in pages:
            is_older = UNKNOWN_TIME_US != ref.last_append_us < time_us
            if is_older or ref.last_id < start:
                continue
            page = await self._read_page(ref)
            if isinstance(page, LedgerPage):
                found = _first_that_may_have(page.ledgers, time_us, start)
            else:
                found = await self._from_time(page.pages, time_us, start)
            if found is not None:
                return found
        return None

    async def walk(self, start: int = 0, ledgers_wanted: int = 1) -> AsyncIterator[ListedLedger]:
        """Every listed ledger from this id on, oldest first.

        `ledgers_wanted`: a hint how many are used; pages with as many are read together.
        """
        wanted = max(start, self._record.first_id)
        while True:
            part, after = await self._part_from(wanted, ledgers_wanted)
            for listed in part:
                yield listed
            if not after:
                return
            wanted = part[-1].ledger_id + 1

    async def walk_back(self, end: int | None = None) -> AsyncIterator[ListedLedger]:
        """Every listed ledger up to this id, newest first."""
        tail = self.tail
        if tail is None:
            return
        listed = await self.at_or_before(tail.ledger_id if end is None else end)
        while listed is not None:
            yield listed
            listed = await self.at_or_before(listed.ledger_id - 1)

    async def walk_back_past_lost(self, end: int) -> AsyncIterator[ListedLedger | HistoryPageError]:
        """The same, with the error in place of the ledgers of a page that cannot be read."""
        while True:
            try:
                listed = await self.at_or_before(end)
            except HistoryPageError as error:
                yield error
                end = error.first - 1
                continue
            if listed is None:
                return
            yield listed
            end = listed.ledger_id - 1

    async def window(self, ledger_id: int, ledgers_wanted: int = 1) -> ListWindow:
        """A part of the list that begins at this id or the lowest one above it.

        `ledgers_wanted`: a hint how long it should be. It ends before a page that is missing or damaged, and names it
        if it would be short without. A page of a later release raises.
        """
        wanted = max(ledger_id, self._record.first_id)
        found: list[ListedLedger] = []
        after = len(self._record.ledgers) + sum(
            ref.ledgers for ref in self._record.pages if ref.last_id >= wanted
        )
        lost: HistoryPageError | None = None
        while lost is None and after and len(found) < _WINDOW_MIN:
            try:
                part, after = await self._part_from(wanted, ledgers_wanted)
            except HistoryPageError as error:
                if error.newer_version is not None:
                    raise
                lost = error
            else:
                found += part
                wanted = found[-1].ledger_id + 1 if found else wanted
        trim = self._record.trim_before
        earliest = await self._earliest() if ledger_id <= trim.ledger_id else trim
        return ListWindow(tuple(found), after, earliest, lost)

    async def _part_from(self, wanted: int, ledgers_wanted: int = 1) -> tuple[Sequence[ListedLedger], int]:
        """The ledgers from `wanted` on that are in the same page, or in the record; and how many follow.

        With those of further pages below the same one, read together, up to about `ledgers_wanted`.
        """
        after = len(self._record.ledgers)
        pages: Sequence[PageRef] = self._record.pages
        while (at := bisect_left(pages, wanted, key=_last_id)) < len(pages):
            read = await self._read_pages(_pages_with(ledgers_wanted, pages[at:]))
            after += sum(ref.ledgers for ref in pages[at + len(read) :])
            first = read[0]
            if isinstance(first, LedgerPage):
                ledgers = [one for page in read if isinstance(page, LedgerPage) for one in page.ledgers]
                return ledgers[bisect_left(ledgers, wanted, key=_ledger_id) :], after
            pages = first.pages
        recent = self._record.ledgers
        return recent[bisect_left(recent, wanted, key=_ledger_id) :], 0

    async def _read_pages(self, refs: Sequence[PageRef]) -> list[Page]:
        """The first of these pages, and those after it up to one that cannot be read."""
        if len(refs) == 1:
            return [await self._read_page(refs[0])]
        read = await asyncio.gather(*map(self._read_page, refs), return_exceptions=True)
        pages: list[Page] = []
        for page in read:
            if isinstance(page, BaseException):
                break
            pages.append(page)
        if not pages:
            assert isinstance(read[0], BaseException)
            raise read[0]
        return pages

    async def _earliest(self) -> MessageId:
        trim = self._record.trim_before
        try:
            listed = await self.at_or_after(trim.ledger_id)
        except HistoryPageError as error:
            if error.newer_version is not None:
                raise
            return max(trim, MessageId(error.first, 0, 0))
        if listed is None or listed.ledger_id == trim.ledger_id:
            return trim
        return MessageId(listed.ledger_id, 0, 0)

    async def ref_to_page(self, level: int, ledger_id: int) -> PageRef | None:
        """The page of this level that has the ledger of this id, if there is one; None if it is not in such a page."""
        pages: Sequence[PageRef] = self._record.pages
        while (ref := _first_at(pages, ledger_id, _last_id)) is not None:
            if ref.level <= level:
                return ref if ref.level == level else None
            page = await self._read_page(ref)
            assert not isinstance(page, LedgerPage), "a page above level 0 lists pages"
            pages = page.pages
        return None

    async def is_in_page(self, ledger_id: int) -> bool:
        """Whether a page has the ledger, even if it has left the list since; not if it is deleted."""
        if ledger_id < self._record.deleted_below:
            return False
        everything = LedgerList(replace(self._record, first_id=0, ledgers=()), self._read_page)
        return await everything.find(ledger_id) is not None

    async def totals(self) -> ListTotals:
        """Number of ledgers, and what their recorded seals say."""
        listed = totals_of(*await self._parts_from(self._record.first_id))
        kept = totals_of(*await self._parts_from(self._record.deleted_below))
        in_pages = kept.ledgers - listed.ledgers
        return replace(listed, deletable=len(self._record.pending_delete) + in_pages)

    async def _parts_from(self, first_id: int) -> tuple[list[PageRef], list[ListedLedger]]:
        """Pages of which no ledger is below this id, and the other ledgers."""
        whole = list[PageRef]()
        listed: list[ListedLedger] = []
        pages: Sequence[PageRef] = self._record.pages
        while pages:
            left = [ref for ref in pages if ref.last_id >= first_id]
            whole += [ref for ref in left if ref.first_id >= first_id]
            if not left or left[0].first_id >= first_id:
                break
            page = await self._read_page(left[0])
            if isinstance(page, LedgerPage):
                listed += [one for one in page.ledgers if one.ledger_id >= first_id]
                break
            pages = page.pages
        return whole, [*listed, *(one for one in self._record.ledgers if one.ledger_id >= first_id)]

    async def newest_with(
        self, limit: int, of_ledger: Callable[[ListedLedger], int], of_page: Callable[[PageRef], int]
    ) -> int:
        """The highest ledger id such that the ledgers from it on hold at least `limit` of what is counted.

        0 if all of them hold less. `of_page` is the sum of `of_ledger` of the ledgers below a page.
        """
        at, held = _newest_with(limit, self._record.ledgers, of_ledger)
        if at >= 0:
            return self._record.ledgers[at].ledger_id
        pages: Sequence[PageRef] = self._record.pages
        while True:
            at, held = _newest_with(limit, pages, of_page, held)
            if at < 0:
                return 0
            page = await self._read_page(pages[at])
            if isinstance(page, LedgerPage):
                at, _ = _newest_with(limit, page.ledgers, of_ledger, held)
                return page.ledgers[at].ledger_id
            pages = page.pages

    async def totals_below(self, ledger_id: int) -> ListTotals:
        """The same of the listed ledgers below this id only."""
        everything = totals_of(*await self._parts_from(self._record.first_id))
        return everything.without(totals_of(*await self._parts_from(max(ledger_id, self._record.first_id))))

    async def trim_cut(self, before: MessageId) -> TrimCut | None:
        """What a trim to `before` takes out of the list; None if nothing.

        A prefix of the list: ledgers that are completely below it and whose seal is recorded, never the last one, nor
        the newest that is known to have entries: they say what the log's producers have appended. A page that lists
        nothing else may be lost.

        Source: docs/log-semantics.md#rule-33, #rule-36.
        """
        record = self._record
        if not record.ledgers:
            return None
        before = max(before, record.trim_before)
        kept = await self.newest_kept()
        floor = await self._floor(min(before.ledger_id, kept))
        if floor is not None:
            dropped = sum(one.ledger_id < floor.ledger_id for one in record.ledgers)
            if dropped and len(record.pending_delete) + dropped > self._pending_max:
                floor = record.ledgers[0]
        return None if floor is None else await self._cut_below(floor.ledger_id)

    async def _floor(self, ledger_id: int) -> ListedLedger | None:
        """The listed ledger with the highest id that is not above this one; after a lost page the next one."""
        try:
            return await self.at_or_before(ledger_id)
        except HistoryPageError as error:
            if error.last >= ledger_id:
                raise
            return await self.at_or_after(error.last + 1)

    async def _cut_below(self, floor: LedgerId) -> TrimCut | None:
        try:
            if await self.at_or_before(floor - 1) is None:
                return None
            async for listed in self.walk_back(floor - 1):
                if listed.seal is not None and not listed.known_empty:
                    return TrimCut(floor, MessageId(listed.ledger_id, listed.seal.last_entry, 0))
        except HistoryPageError as error:
            if error.last >= floor:
                raise
            return TrimCut(floor, None, lost_through=error.last)
        return TrimCut(floor, None)

    async def newest_kept(self) -> LedgerId:
        """The ledger that no trim takes out of the list, nor those after it: the newest known to have entries.

        If none is, the first one whose seal is not recorded, or the last one. The record lists at least one.
        """
        async for listed in self.walk_back():
            if listed.seal is not None and not listed.known_empty:
                return listed.ledger_id
        ledgers = self._record.ledgers
        return next((one for one in ledgers if one.seal is None), ledgers[-1]).ledger_id

    async def walk_deletable(self) -> AsyncIterator[ListedLedger]:
        """Ledgers in pages that have left the list and are not deleted, oldest first."""
        whole = replace(self._record, first_id=self._record.deleted_below, ledgers=())
        try:
            async for listed in LedgerList(whole, self._read_page).walk():
                if listed.ledger_id >= self._record.first_id:
                    return
                yield listed
        except HistoryPageError as error:
            if error.first < self._record.first_id:
                raise


def may_have(listed: ListedLedger, time_us: int) -> bool:
    """Whether the ledger may have a message appended at or after the time."""
    seal = listed.seal
    if seal is None:
        return True
    return seal.last_entry >= 0 and not UNKNOWN_TIME_US != seal.last_append_us < time_us


def _first_that_may_have(ledgers: Sequence[ListedLedger], time_us: int, start: int) -> ListedLedger | None:
    return next((one for one in ledgers if one.ledger_id >= start and may_have(one, time_us)), None)


def _newest_with(
    limit: int, items: Sequence[_T], weight: Callable[[_T], int], held: int = 0
) -> tuple[int, int]:
    """Where the newest item is with which those from it on hold `limit`, and what those after it hold.

    All begin with `held`. -1 if they hold less.
    """
    for at in reversed(range(len(items))):
        if held + weight(items[at]) >= limit:
            return at, held
        held += weight(items[at])
    return -1, held


def _first_at(items: Sequence[_T], wanted: int, key: Callable[[_T], int]) -> _T | None:
    at = bisect_left(items, wanted, key=key)
    return items[at] if at < len(items) else None


def _last_at(items: Sequence[_T], wanted: int, key: Callable[[_T], int]) -> _T | None:
    at = bisect_right(items, wanted, key=key)
    return items[at - 1] if at else None


def _pages_with(ledgers: int, refs: Sequence[PageRef]) -> Sequence[PageRef]:
    """The first page, and if it lists ledgers those after it until they list this number of ledgers."""
    count = refs[0].ledgers
    for end, ref in enumerate(refs[1:], start=1):
        if count >= ledgers or refs[0].level or ref.level:
            return refs[:end]
        count += ref.ledgers
    return refs


def _ledger_id(listed: ListedLedger) -> int:
    return listed.ledger_id


def _first_id(ref: PageRef) -> int:
    return ref.first_id


def _last_id(ref: PageRef) -> int:
    return ref.last_id
