"""What a client knows of the registered bookies, when answers of the store overtake one another."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from ledger.client import LedgerClient
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError, NotEnoughBookiesError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo, BookieSet, QuorumSizes
from tests.helpers.ledger.scripted_bookies import until

_names = itertools.count()


class SlowAnswers:
    """Stands in front of a store: an answer about bookies is as old as its request, and is given when told."""

    def __init__(self, store: MetadataStore) -> None:
        self._bookies = store.bookies
        self.waiting: list[asyncio.Future[None]] = []
        store.bookies = self.bookies  # type: ignore[method-assign]  # for this test

    async def bookies(self) -> BookieSet:
        found = await self._bookies()
        given = asyncio.get_running_loop().create_future()
        self.waiting.append(given)
        await given
        return found

    async def asked(self, count: int) -> None:
        await until(lambda: len(self.waiting) == count)


async def new_store() -> MetadataStore:
    store = await open_store(f"memory:known-bookies-{next(_names)}", SystemEnvironment())
    await store.init_cluster()
    return store


async def register(store: MetadataStore) -> BookieId:
    bookie_id = BookieId("10.0.0.1:3181")
    await store.register_bookie(BookieInfo(bookie_id=bookie_id, host="10.0.0.1", port=3181))
    return bookie_id


def knows(client: LedgerClient, bookie_id: BookieId) -> Callable[[], bool]:
    return lambda: client.bookies().find(bookie_id) is not None


async def test_an_answer_that_was_overtaken_does_not_undo_a_later_one() -> None:
    """The client starts and looks; a bookie registers; the look that follows is answered first."""
    store = await new_store()
    answers = SlowAnswers(store)
    client = LedgerClient(store)
    starting = asyncio.create_task(client.start())
    await answers.asked(1)
    bookie_id = await register(store)
    await answers.asked(2)
    answers.waiting[1].set_result(None)
    await until(knows(client, bookie_id))
    answers.waiting[0].set_result(None)
    await starting
    assert client.bookies().find(bookie_id) is not None
    await client.close()
    await store.close()


async def test_an_earlier_answer_counts_while_no_later_look_was_answered() -> None:
    """A later one may fail."""
    store = await new_store()
    bookie_id = await register(store)
    answers = SlowAnswers(store)
    client = LedgerClient(store)
    starting = asyncio.create_task(client.start())
    await answers.asked(1)
    creating = asyncio.create_task(client.create(QuorumSizes(ensemble=2, write=2, ack=2)))
    await answers.asked(2)
    answers.waiting[1].set_exception(MetadataUnavailableError("away"))
    with pytest.raises(MetadataUnavailableError):
        await creating
    answers.waiting[0].set_result(None)
    await starting
    assert client.bookies().find(bookie_id) is not None
    creating = asyncio.create_task(client.create(QuorumSizes(ensemble=2, write=2, ack=2)))
    await answers.asked(3)
    answers.waiting[2].set_result(None)
    with pytest.raises(NotEnoughBookiesError):
        await creating
    await client.close()
    await store.close()
