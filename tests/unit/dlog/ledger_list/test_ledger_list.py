"""A list in pages answers as a plain sorted list of the same ledgers does, and reads few pages."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, bisect_right
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.ledger_list import listing as listing_module
from dlog.ledger_list.ledger_list import PAGES_KEPT, LedgerList, PageCache, may_have
from dlog.ledger_list.listing import (
    KEPT_MIN,
    PAGE_FANOUT,
    PAGE_LEDGERS,
    Listing,
    archived,
    check_listing,
    without_below,
    without_pages_below,
)
from dlog.ledger_list.page import Page, PageRef
from dlog.model import ListedLedger, SealFacts
from ledger.model import LedgerId


class Pages:
    """A metadata store of pages."""

    def __init__(self) -> None:
        self.stored: dict[str, Page] = {}
        self._names = itertools.count()

    def archive(self, listing: Listing) -> Listing:
        version = next(self._names)
        new, written = archived(listing, lambda number: f"{version}-{number}")
        for page in written:
            assert page.name not in self.stored
            self.stored[page.name] = page.page
        return new

    async def read(self, ref: PageRef) -> Page:
        return self.stored[ref.name]


def ledger(ledger_id: int, time_us: int, *, sealed: bool = True, entries: int = 3) -> ListedLedger:
    seal = SealFacts(
        last_entry=entries - 1,
        message_count=entries,
        byte_count=10 * entries,
        first_append_us=time_us,
        last_append_us=time_us,
    )
    return ListedLedger(
        ledger_id=LedgerId(ledger_id), epoch=1, created_us=time_us, seal=seal if sealed else None
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and levels that a test fills."""
    monkeypatch.setattr(listing_module, "KEPT_MIN", 4)
    monkeypatch.setattr(listing_module, "PAGE_LEDGERS", 3)
    monkeypatch.setattr(listing_module, "PAGE_FANOUT", 3)


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_a_plain_list_does(small: None, seed: int) -> None:
    """Rotations, takeovers that leave empty ledgers, seals without times, trims, deletion of pages."""

    async def main() -> None:
        random = Random(seed)
        pages = Pages()
        cache = PageCache(pages.read)
        listing, model, time_us, last_id = Listing(), list[ListedLedger](), 1000, 0
        for _ in range(300):
            last_id += random.choice((1, 1, 2, 7))
            time_us += random.choice((0, 1, 10))
            new = ledger(last_id, time_us, sealed=False)
            sealed = [
                one
                if one.seal is not None
                else ledger(
                    one.ledger_id,
                    random.choice((0, one.created_us, one.created_us, one.created_us)),
                    entries=random.choice((0, 3, 3)),
                )
                for one in listing.recent
            ]
            listing = pages.archive(Listing(listing.pages, (*sealed, new), listing.first_id))
            assert check_listing(listing) is None
            model = [one for one in model if one.ledger_id < (sealed[0].ledger_id if sealed else 0)]
            model += [*sealed, new]
            if random.random() < 0.05:
                floor = random.choice(model).ledger_id
                listing, dropped = without_below(listing, floor)
                assert all(one.ledger_id < floor for one in dropped)
                model = [one for one in model if one.ledger_id >= floor]
                if random.random() < 0.5:
                    listing, _ = without_pages_below(listing, floor)
                assert check_listing(listing) is None
            found = LedgerList(listing, cache)
            ids = [one.ledger_id for one in model]
            assert found.tail == model[-1]
            assert await found.first() == model[0]
            for wanted in random.sample(range(last_id + 3), min(5, last_id + 3)):
                at = bisect_left(ids, wanted)
                after = bisect_right(ids, wanted)
                assert await found.find(wanted) == (model[at] if ids[at : at + 1] == [wanted] else None)
                assert await found.at_or_after(wanted) == (model[at] if at < len(ids) else None)
                assert await found.next(wanted) == (model[after] if after < len(ids) else None)
                assert await found.at_or_before(wanted) == (model[after - 1] if after else None)
            wanted_us = random.randint(995, time_us + 5)
            candidates = [one for one in model if may_have(one, wanted_us)]
            assert await found.from_time(wanted_us) == next(iter(candidates), None)
            after = random.choice(ids)
            later = [one for one in candidates if one.ledger_id >= after]
            assert await found.from_time(wanted_us, after) == next(iter(later), None)
        assert [one async for one in found.walk()] == model
        assert [one async for one in found.walk_back()] == model[::-1]
        middle = ids[len(ids) // 2]
        assert [one async for one in found.walk(middle)] == [one for one in model if one.ledger_id >= middle]
        assert [one async for one in found.walk_back(middle)] == [
            one for one in reversed(model) if one.ledger_id <= middle
        ]

    asyncio.run(main())


def test_an_empty_list() -> None:
    async def main() -> None:
        found = LedgerList(Listing(), PageCache(Pages().read))
        assert found.tail is None
        assert await found.first() is None
        assert await found.find(3) is None
        assert await found.at_or_before(3) is None
        assert await found.from_time(3) is None
        assert [one async for one in found.walk()] == [one async for one in found.walk_back()] == []

    asyncio.run(main())


def long_list(count: int) -> tuple[Listing, Pages]:
    pages = Pages()
    listing = Listing()
    for start in range(0, count, 50):
        new = tuple(ledger(2 * number, number + 1) for number in range(start, min(count, start + 50)))
        listing = pages.archive(Listing(listing.pages, (*listing.recent, *new), 0))
    return listing, pages


def test_a_million_ledgers_are_a_short_record_and_few_reads() -> None:
    count = 1_000_000
    listing, pages = long_list(count)
    assert check_listing(listing) is None
    assert KEPT_MIN <= len(listing.recent) < KEPT_MIN + PAGE_LEDGERS
    assert len(listing.pages) < 3 * PAGE_FANOUT
    assert listing.in_pages + len(listing.recent) == count
    assert sum(page.message_count for page in listing.pages) == 3 * listing.in_pages

    async def main() -> None:
        for wanted in (0, 2, 999_998, 1_000_000, 2 * count - 2):
            cache = PageCache(pages.read)
            found = await LedgerList(listing, cache).find(wanted)
            assert found is not None and found.ledger_id == wanted
            assert cache.reads <= 3
            assert await LedgerList(listing, cache).find(wanted + 1) is None
            assert await LedgerList(listing, cache).from_time(wanted // 2 + 1) == found
            assert cache.reads <= 6
        cache = PageCache(pages.read)
        walked = 0
        async for _ in LedgerList(listing, cache).walk(2 * (count - 100_000)):
            walked += 1
        assert walked == 100_000
        assert cache.reads <= 100_000 / PAGE_LEDGERS * 1.1
        assert len(cache._kept) == PAGES_KEPT
        trimmed, dropped = without_below(listing, 2 * (count - 10))
        assert len(trimmed.recent) == 10 and trimmed.pages == listing.pages
        assert all(one.ledger_id < 2 * (count - 10) for one in dropped)
        first = await LedgerList(trimmed, cache).first()
        assert first is not None and first.ledger_id == 2 * (count - 10)
        assert without_pages_below(trimmed, trimmed.first_id)[0].pages == ()

    asyncio.run(main())


def test_a_list_of_an_older_format_moves_into_pages_in_one_change() -> None:
    pages = Pages()
    listing = pages.archive(Listing(recent=tuple(ledger(number, number) for number in range(19_900))))
    assert check_listing(listing) is None
    assert len(listing.recent) < KEPT_MIN + PAGE_LEDGERS
    assert len(pages.stored) < 19_900 / PAGE_LEDGERS * 1.1


def test_an_unsealed_ledger_stays_in_the_record() -> None:
    """Only the last two are unsealed; but what is not recorded as sealed must never leave it."""
    recent = tuple(ledger(number, number, sealed=number != 10) for number in range(300))
    listing, written = archived(Listing(recent=recent), str)
    assert listing.recent == recent
    assert written == ()


async def _lost(ref: PageRef) -> Page:
    raise LookupError(ref.name)


@given(st.integers(0, 2000))
def test_a_page_that_cannot_be_read_is_an_error_and_never_an_absence(wanted: int) -> None:
    listing, _ = long_list(500)
    in_pages = wanted <= listing.pages[-1].last_id

    async def main() -> None:
        found = LedgerList(listing, PageCache(_lost))
        for look in (found.find, found.at_or_after):
            if in_pages:
                with pytest.raises(LookupError):
                    await look(wanted)
            else:
                assert (await found.at_or_after(wanted) is None) == (wanted > listing.recent[-1].ledger_id)

    asyncio.run(main())
