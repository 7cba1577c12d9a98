"""A list in pages answers as a plain sorted list of the same ledgers does, and reads few pages."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, bisect_right
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.core.metadata_changes import shrunk, without_deleted_pages
from dlog.errors import HistoryPageError
from dlog.format.history_page import decode_page, encode_page
from dlog.format.log_metadata import decode_record, encode_record
from dlog.ledger_list.ledger_list import LedgerList, may_have
from dlog.ledger_list.listing import (
    DEFAULT_SIZES,
    KEPT_MIN,
    PAGE_FANOUT,
    PAGE_LEDGERS,
    Sizes,
    archived,
    broken_rule,
)
from dlog.ledger_list.page import Page
from dlog.ledger_list.totals import totals_of
from dlog.ledger_list.trim_cut import PENDING_MAX
from dlog.model import ListedLedger, LogMetadata, MessageId, PageRef, PendingDelete, SealFacts
from ledger.model import LedgerId
from tests.helpers.log.records import record

SMALL = Sizes(kept_min=4, page_ledgers=3, page_fanout=3)
"""Pages and levels that a test fills."""


class Pages:
    """A metadata store of pages."""

    def __init__(self, sizes: Sizes = DEFAULT_SIZES) -> None:
        self.stored: dict[str, Page] = {}
        self.reads = 0
        self._sizes = sizes
        self._versions = itertools.count()

    def archive(self, before: LogMetadata) -> LogMetadata:
        version = next(self._versions)
        after, written = archived(before, lambda level, first: f"{level}-{first}-{version}", self._sizes)
        for page in written:
            assert page.name not in self.stored
            self.stored[page.name] = page.page
        return after

    async def read(self, ref: PageRef) -> Page:
        self.reads += 1
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


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_a_plain_list_does(seed: int) -> None:
    """Rotations, takeovers that leave empty ledgers, seals without times, trims, deletions."""

    async def main() -> None:
        random = Random(seed)
        pages = Pages(SMALL)
        log, model, time_us, last_id = record(), list[ListedLedger](), 1000, 0
        for _ in range(300):
            last_id += random.choice((1, 1, 2, 7))
            time_us += random.choice((0, 1, 10))
            new = ledger(last_id, time_us, sealed=False)
            sealed = tuple(
                one
                if one.seal is not None
                else ledger(
                    one.ledger_id,
                    random.choice((0, one.created_us, one.created_us, one.created_us)),
                    entries=random.choice((0, 3, 3)),
                )
                for one in log.ledgers
            )
            model = [one for one in model if one.ledger_id < (sealed[0].ledger_id if sealed else 0)]
            model += [*sealed, new]
            log = pages.archive(replace(log, ledgers=(*sealed, new), last_ledger_id=last_id))
            if random.random() < 0.05:
                log = await trim(random, log, model, pages)
                model = [one for one in model if one.ledger_id >= log.first_id]
                model = [one for one in model if one.ledger_id >= log.ledgers[0].ledger_id or log.pages]
            await compare(random, log, model, pages)

    asyncio.run(main())


async def trim(random: Random, log: LogMetadata, model: list[ListedLedger], pages: Pages) -> LogMetadata:
    """To somewhere in a listed ledger or between two; sometimes what it removes is deleted then."""
    before = MessageId(random.choice(model).ledger_id + random.choice((0, 0, 1)), random.choice((0, 2)), 0)
    before = min(before, MessageId(model[-1].ledger_id, 0, 0))
    cut = await LedgerList(log, pages.read).trim_cut(before)
    after = shrunk(log, before, cut, 1)
    asked = max(before, log.trim_before)
    below = [one for one in model if MessageId(_next_id(model, one), 0, 0) <= asked]
    with_entries = [one.ledger_id for one in model if one.seal is not None and not one.known_empty]
    below = [one for one in below if not with_entries or one.ledger_id < with_entries[-1]]
    floor = model[len(below)].ledger_id
    assert (cut is None) == (not below)
    if cut is not None:
        assert cut.floor == floor
        ends = [one for one in below if one.seal is not None and not one.known_empty]
        assert (None if cut.end is None else cut.end.ledger_id) == (ends[-1].ledger_id if ends else None)
    left = {one.ledger_id async for one in LedgerList(after, pages.read).walk_deletable()}
    left |= {one.ledger_id for one in after.pending_delete} - {one.ledger_id for one in log.pending_delete}
    assert {one.ledger_id for one in below} <= left
    if random.random() < 0.5:
        after = without_deleted_pages(after, after.first_id, 2)
        assert [one async for one in LedgerList(after, pages.read).walk_deletable()] == []
    return replace(after, pending_delete=())


def _next_id(model: list[ListedLedger], one: ListedLedger) -> int:
    following = [each.ledger_id for each in model if each.ledger_id > one.ledger_id]
    return following[0] if following else 2**62


async def compare(random: Random, log: LogMetadata, model: list[ListedLedger], pages: Pages) -> None:
    assert decode_record(encode_record(log)) == log
    found = LedgerList(log, pages.read)
    ids = [one.ledger_id for one in model]
    last_id = ids[-1]
    assert found.tail == model[-1]
    for wanted in random.sample(range(last_id + 3), min(5, last_id + 3)):
        at, after = bisect_left(ids, wanted), bisect_right(ids, wanted)
        assert await found.find(wanted) == (model[at] if ids[at : at + 1] == [wanted] else None)
        assert await found.at_or_after(wanted) == (model[at] if at < len(ids) else None)
        assert await found.at_or_before(wanted) == (model[after - 1] if after else None)
        window = await found.window(wanted, random.choice((1, 4, 20)))
        assert list(window.ledgers) == model[at : at + len(window.ledgers)]
        assert window.after == len(model) - at - len(window.ledgers)
        assert window.ends or len(window.ledgers) >= 8
        trim = log.trim_before
        listed = model[bisect_left(ids, trim.ledger_id)] if trim.ledger_id <= last_id else None
        whole = listed is None or listed.ledger_id == trim.ledger_id
        whole = whole or wanted > trim.ledger_id
        assert window.earliest == (trim if whole else MessageId(listed.ledger_id, 0, 0))
    wanted_us = random.randint(995, model[-1].created_us + 5)
    candidates = [one for one in model if may_have(one, wanted_us)]
    assert await found.from_time(wanted_us) == next(iter(candidates), None)
    after = random.choice(ids)
    later = [one for one in candidates if one.ledger_id >= after]
    assert await found.from_time(wanted_us, after) == next(iter(later), None)
    assert replace(await found.totals(), deletable=0) == totals_of((), model)
    assert await found.totals_below(after) == totals_of((), [one for one in model if one.ledger_id < after])
    await compare_newest(random, found, model)
    assert [one async for one in found.walk()] == model
    assert [one async for one in found.walk(ledgers_wanted=random.randint(2, 300))] == model
    assert [one async for one in found.walk_back()] == model[::-1]
    middle = ids[len(ids) // 2]
    assert [one async for one in found.walk(middle)] == [one for one in model if one.ledger_id >= middle]
    assert [one async for one in found.walk_back(middle)] == [
        one for one in reversed(model) if one.ledger_id <= middle
    ]


async def compare_newest(random: Random, found: LedgerList, model: list[ListedLedger]) -> None:
    """Which ledger is the newest that is needed to have so many bytes."""
    held = list(itertools.accumulate(byte_count(one) for one in reversed(model)))
    limit = random.randint(1, held[-1] + 20)
    newest = await found.newest_with(limit, byte_count, lambda page: page.byte_count)
    if limit <= held[-1]:
        assert newest == model[-1 - bisect_left(held, limit)].ledger_id
    else:
        assert newest < model[0].ledger_id, "an older one may be in a page that is still there"


def byte_count(listed: ListedLedger) -> int:
    return 0 if listed.seal is None else listed.seal.byte_count


def test_an_empty_list() -> None:
    async def main() -> None:
        found = LedgerList(record(), Pages().read)
        assert found.tail is None
        assert await found.find(3) is None
        assert await found.at_or_before(3) is None
        assert await found.from_time(3) is None
        assert await found.newest_with(1, byte_count, lambda page: page.byte_count) == 0
        assert await found.trim_cut(MessageId(3, 0, 0)) is None
        assert (await found.window(3)).ends
        assert [one async for one in found.walk()] == [one async for one in found.walk_back()] == []

    asyncio.run(main())


def long_list(count: int) -> tuple[LogMetadata, Pages]:
    pages = Pages()
    log = record()
    for start in range(0, count, 50):
        new = tuple(ledger(2 * number, number + 1) for number in range(start, min(count, start + 50)))
        log = pages.archive(replace(log, ledgers=(*log.ledgers, *new), last_ledger_id=new[-1].ledger_id))
    return log, pages


def test_a_long_window_reads_its_pages_together() -> None:
    async def main() -> None:
        log, pages = long_list(500)
        under_way = most = 0

        async def read(ref: PageRef) -> Page:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return await pages.read(ref)

        window = await LedgerList(log, read).window(0, 4 * PAGE_LEDGERS - 1)
        assert most == 4
        assert len(window.ledgers) == 4 * PAGE_LEDGERS
        assert len(window.ledgers) + window.after == 500

    asyncio.run(main())


def test_a_long_window_ends_before_a_page_that_cannot_be_read() -> None:
    """Its ledgers are an error only for a reader that comes to them."""

    async def main() -> None:
        log, pages = long_list(500)
        del pages.stored[log.pages[2].name]
        found = LedgerList(log, pages.read)
        window = await found.window(0, 500)
        assert len(window.ledgers) == 2 * PAGE_LEDGERS
        assert len(window.ledgers) + window.after == 500
        with pytest.raises(KeyError):
            await found.window(2 * PAGE_LEDGERS * 2, 500)

    asyncio.run(main())


def test_a_million_ledgers_are_a_short_record_and_few_reads() -> None:
    count = 1_000_000
    log, pages = long_list(count)
    assert broken_rule(log) is None
    assert len(encode_record(log)) < 32 * 1024
    for ref in log.pages:
        value = encode_page(pages.stored[ref.name])
        assert len(value) < 16 * 1024
        assert decode_page(value) == pages.stored[ref.name]
    assert KEPT_MIN <= len(log.ledgers) < KEPT_MIN + PAGE_LEDGERS
    assert len(log.pages) < 3 * PAGE_FANOUT

    async def main() -> None:
        found = LedgerList(log, pages.read)
        for wanted in (0, 2, 999_998, 1_000_000, 2 * count - 2):
            pages.reads = 0
            listed = await found.find(wanted)
            assert listed is not None and listed.ledger_id == wanted
            assert pages.reads <= 3
            assert await found.find(wanted + 1) is None
            pages.reads = 0
            assert await found.from_time(wanted // 2 + 1) == listed
            assert pages.reads <= 3
        totals = await found.totals()
        assert (totals.ledgers, totals.messages) == (count, 3 * count)
        pages.reads = walked = 0
        async for _ in found.walk(2 * (count - 100_000)):
            walked += 1
        assert walked == 100_000
        assert pages.reads <= 3 * 100_000 / PAGE_LEDGERS * 1.1
        pages.reads = 0
        cut = await found.trim_cut(MessageId(2 * (count - 10), 0, 0))
        assert cut is not None and pages.reads <= 12
        trimmed = shrunk(log, MessageId(2 * (count - 10), 0, 0), cut, 1)
        assert len(trimmed.ledgers) == 10 and trimmed.pages == log.pages
        first = await LedgerList(trimmed, pages.read).at_or_after(0)
        assert first is not None and first.ledger_id == 2 * (count - 10)
        assert without_deleted_pages(trimmed, trimmed.first_id, 2).pages == ()

    asyncio.run(main())


def test_a_list_of_an_older_format_moves_into_pages_in_one_change() -> None:
    pages = Pages()
    old = replace(record(*(ledger(number, number) for number in range(19_900))), format_version=2)
    assert archived(old, lambda level, first: "") == (old, ())
    log = pages.archive(replace(old, format_version=3))
    assert broken_rule(log) is None
    assert len(log.ledgers) < KEPT_MIN + PAGE_LEDGERS
    assert len(pages.stored) < 19_900 / PAGE_LEDGERS * 1.1


def test_an_unsealed_ledger_stays_in_the_record() -> None:
    """Only the last two are unsealed; but what is not recorded as sealed must never leave it."""
    log = record(*(ledger(number, number, sealed=number != 10) for number in range(300)))
    assert archived(log, lambda level, first: "") == (log, ())


def test_a_trim_leaves_ledgers_listed_while_too_many_wait_for_their_deletion() -> None:
    """They are below the trim position all the same, and are deleted once they are in pages."""
    waiting = tuple(
        PendingDelete(ledger_id=LedgerId(number), not_before_us=0) for number in range(PENDING_MAX - 1)
    )
    log = replace(record(*(ledger(1000 + number, 1) for number in range(5))), pending_delete=waiting)

    async def main() -> None:
        found = LedgerList(log, Pages().read)
        one = await found.trim_cut(MessageId(1001, 0, 0))
        assert one is not None and one.floor == 1001
        assert await found.trim_cut(MessageId(1002, 0, 0)) is None

    asyncio.run(main())


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("beyond", [1, 2])
def test_a_trim_passes_a_lost_page_that_is_completely_below_it(step: int, beyond: int) -> None:
    """What the page ended with is not known: no position in it is after everything that was trimmed."""
    pages = Pages(SMALL)
    log = pages.archive(record(*(ledger(step * number, number) for number in range(1, 10))))
    lost = log.pages[-1]

    async def read(ref: PageRef) -> Page:
        if ref == lost:
            raise HistoryPageError("lost", first=ref.first_id, last=ref.last_id)
        return await pages.read(ref)

    async def main() -> None:
        with pytest.raises(HistoryPageError):
            await LedgerList(log, read).trim_cut(MessageId(lost.last_id, 5, 0))
        before = MessageId(lost.last_id + beyond, 0, 0)
        cut = await LedgerList(log, read).trim_cut(before)
        assert cut is not None
        assert lost.last_id < cut.floor <= max(lost.last_id + step, lost.last_id + beyond)
        after = shrunk(log, before, cut, 1, last_count=1)
        assert lost.last_id < after.trimmed_end.ledger_id <= before.ledger_id
        assert decode_record(encode_record(after)) == after
        found = LedgerList(after, read)
        assert await found.trim_cut(before) is None
        assert [one async for one in found.walk()] == [one async for one in found.walk_back()][::-1]

    asyncio.run(main())


async def _lost(ref: PageRef) -> Page:
    raise LookupError(ref.name)


@given(st.integers(0, 2000))
def test_a_page_that_cannot_be_read_is_an_error_and_never_an_absence(wanted: int) -> None:
    log, _ = long_list(500)
    in_pages = wanted <= log.pages[-1].last_id

    async def main() -> None:
        found = LedgerList(log, _lost)
        for look in (found.find, found.at_or_after, found.window):
            if in_pages:
                with pytest.raises(LookupError):
                    await look(wanted)
            else:
                assert (await found.at_or_after(wanted) is None) == (wanted > log.ledgers[-1].ledger_id)

    asyncio.run(main())
