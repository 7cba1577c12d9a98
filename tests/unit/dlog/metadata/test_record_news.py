"""A record that is read again after each change, next to what its reader does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dlog.metadata.record_news import Found, RecordNews
from dlog.model import LogMetadata
from ledger.errors import LogStoreError, MetadataUnavailableError
from ledger.model import Versioned
from tests.helpers.log.lists import window_of


def found(version: int) -> Found:
    record = LogMetadata(log_uuid="u", instance_id="i")
    return Versioned(record, version), window_of(record)


class Store:
    """Answers each read when the test says so, with what the test says."""

    def __init__(self) -> None:
        self.reads: list[tuple[bool, asyncio.Future[Found]]] = []

    async def read(self, fresh: bool) -> Found:
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.reads.append((fresh, answer))
        return await answer

    async def answer(self, version: int, *, read: int = -1) -> None:
        self.reads[read][1].set_result(found(version))
        await turns()

    @property
    def under_way(self) -> list[bool]:
        """Whether each of the reads that wait for an answer must be linearizable."""
        return [fresh for fresh, answer in self.reads if not answer.done()]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def version(taken: Found | LogStoreError | None) -> int | None:
    assert not isinstance(taken, LogStoreError)
    return None if taken is None else taken[0].version


async def test_a_change_is_read_by_the_cheapest_read_while_the_reader_goes_on() -> None:
    store = Store()
    news = RecordNews(store.read)
    assert news.take() is None
    news.changed()
    news.changed()
    await turns()
    assert store.under_way == [False], "one read for both"
    assert news.take() is None and not news.arrived.is_set()
    await store.answer(3)
    assert news.arrived.is_set()
    assert version(news.take()) == 3
    assert not news.arrived.is_set() and news.take() is None
    assert not store.under_way


async def test_a_change_during_a_read_is_read_after_it() -> None:
    store = Store()
    news = RecordNews(store.read)
    news.changed()
    await turns()
    news.changed()
    await store.answer(3)
    assert version(news.take()) == 3
    await turns()
    await store.answer(4)
    assert version(news.take()) == 4


async def test_an_older_record_is_no_news() -> None:
    """In a new session the cheapest read may show one."""
    store = Store()
    news = RecordNews(store.read)
    for shown, expected in ((7, 7), (6, None), (7, None), (8, 8)):
        news.changed()
        await turns()
        await store.answer(shown)
        assert version(news.take()) == expected


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_read_that_is_asked_for_takes_the_place_of_one_that_began_before(is_answered: bool) -> None:
    store = Store()
    news = RecordNews(store.read)
    news.changed()
    await turns()
    if is_answered:
        await store.answer(3)
    asked = asyncio.create_task(news.read())
    await turns()
    assert store.under_way == [True]
    assert news.take() is None
    await store.answer(4)
    assert version(await asked) == 4
    assert news.take() is None and not store.under_way


async def test_a_change_during_a_read_that_is_asked_for_is_read_after_it() -> None:
    """Begun at the same time, it might show an older record than that one."""
    store = Store()
    news = RecordNews(store.read)
    asked = asyncio.create_task(news.read())
    await turns()
    news.changed()
    await turns()
    assert store.under_way == [True]
    await store.answer(4)
    assert version(await asked) == 4
    await turns()
    assert store.under_way == [False]
    await store.answer(5)
    assert version(news.take()) == 5


async def fail(news: RecordNews, store: Store, error: Exception) -> None:
    news.changed()
    await turns()
    store.reads[-1][1].set_exception(error)
    await turns()


async def test_an_error_is_handed_out_and_the_next_change_is_read() -> None:
    store, error = Store(), MetadataUnavailableError("the store is down")
    news = RecordNews(store.read)
    await fail(news, store, error)
    assert news.take() is error
    assert news.take() is None
    news.changed()
    await turns()
    await store.answer(1)
    assert version(news.take()) == 1


async def test_an_error_that_nothing_can_be_done_about_is_raised() -> None:
    store = Store()
    news = RecordNews(store.read)
    await fail(news, store, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        news.take()


def closing_before(news: RecordNews) -> None:
    news.close()
    news.changed()


def closing_during(news: RecordNews) -> None:
    news.changed()
    news.close()


@pytest.mark.parametrize("close", [closing_before, closing_during])
async def test_one_that_is_closed_reads_no_more(close: Callable[[RecordNews], None]) -> None:
    store = Store()
    news = RecordNews(store.read)
    close(news)
    await turns()
    assert not store.under_way and news.take() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
