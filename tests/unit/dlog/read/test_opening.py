"""A reader that opens: what ends its opening, and what does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.model import EARLIEST_ID, MessageId
from dlog.read.config import ReaderConfig
from dlog.read.range import Where
from dlog.read.reader import Reader
from ledger.errors import ConfigurationError, MetadataUnavailableError
from tests.helpers.log.blocking_log import blocking_log
from tests.helpers.log.memory_ledgers import poll
from tests.helpers.log.scripted_log import scripted_log, store_of

LOG = "orders"


async def _open(reader: Reader) -> None:
    await reader.open()


async def _enter(reader: Reader) -> None:
    async with reader:
        pass


async def _iterate(reader: Reader) -> None:
    async for _ in reader:
        pass


async def _make_arrow(reader: Reader) -> None:
    async for _ in reader.arrow_batches():
        pass


async def _measure_lag(reader: Reader) -> None:
    await reader.measure_lag()


_WAYS: list[Callable[[Reader], Coroutine[Any, Any, None]]] = [
    _open,
    _enter,
    _iterate,
    _make_arrow,
    _measure_lag,
]


class Held:
    """The openings of a client's readers wait until `go_on`."""

    def __init__(self, client: LogClient) -> None:
        self._asked = store_of(client).asked
        self._held = store_of(client).held
        self._gate = self._held["read_record"] = asyncio.Event()

    async def reached(self) -> None:
        await poll(lambda: "read_record" in self._asked)

    def go_on(self) -> None:
        self._held.clear()
        self._gate.set()


def _fetchers() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("dlog reader of")]


@pytest.mark.parametrize("opened_by", _WAYS)
async def test_closing_ends_the_opening(opened_by: Callable[[Reader], Coroutine[Any, Any, None]]) -> None:
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        await owner.create(LOG)
        held = Held(client)
        reader = client.reader(LOG)
        opening = asyncio.create_task(opened_by(reader))
        await held.reached()
        await reader.close()
        held.go_on()
        async with asyncio.timeout(20):
            with pytest.raises(ConfigurationError, match="closed"):
                await opening
        assert not _fetchers()


async def test_closing_the_client_ends_the_opening() -> None:
    async with scripted_log() as log, log.client() as owner:
        await owner.create(LOG)
        async with log.client() as client:
            held = Held(client)
            opening = asyncio.create_task(_iterate(client.reader(LOG)))
            await held.reached()
        held.go_on()
        async with asyncio.timeout(20):
            with pytest.raises(ConfigurationError, match="closed"):
                await opening
        assert not _fetchers()


def test_closing_ends_the_opening_of_a_blocking_reader() -> None:
    with blocking_log() as log:
        client = log.client()
        client.create(LOG)
        reader = client.reader(LOG)
        finding, refused = threading.Event(), threading.Event()

        async def find(_: object) -> None:
            finding.set()
            await asyncio.sleep(1)

        client._target.logs.find = find  # type: ignore[method-assign,assignment]

        def iterate() -> None:
            with pytest.raises(ConfigurationError, match="closed"):
                next(reader)
            refused.set()

        iterating = threading.Thread(target=iterate)
        iterating.start()
        assert finding.wait(20)
        reader.close(timeout_s=20)
        assert refused.wait(20)
        iterating.join(20)


async def test_a_closed_reader_leaves_the_cursor_to_the_next_one() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as other:
        async with other.open_writer(LOG, create=True) as writer:
            await writer.append_many([b"0", b"1"])
        held = Held(client)
        closed = client.reader(LOG, cursor="c")
        opening = asyncio.create_task(closed.open())
        await held.reached()
        await closed.close()
        async with other.reader(LOG, cursor="c") as reader:
            await reader.ack(await anext(reader))
            held.go_on()
            await asyncio.gather(opening, return_exceptions=True)
            await reader.ack(await anext(reader))


async def test_a_cancelled_call_ends_the_opening_that_it_began() -> None:
    """As soon as it has ended, the next call begins another one."""
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        await owner.create(LOG)
        held = Held(client)
        reader = client.reader(LOG, cursor="c")
        opening = asyncio.create_task(reader.open())
        await held.reached()
        opening.cancel()
        await asyncio.wait((opening,))
        assert opening.cancelled()
        held.go_on()
        await asyncio.sleep(0.05)
        assert await owner.cursors(LOG) == []
        await reader.open()
        assert [cursor.name for cursor in await owner.cursors(LOG)] == ["c"]
        await reader.close()


@pytest.mark.parametrize("first_to_end", [0, 1])
async def test_an_opening_ends_with_the_last_call_that_waits_for_it(first_to_end: int) -> None:
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        await owner.create(LOG)
        held = Held(client)
        reader = client.reader(LOG)
        calls = [asyncio.create_task(reader.open()) for _ in range(2)]
        await held.reached()
        calls.pop(first_to_end).cancel()
        await asyncio.sleep(0.01)
        assert reader._opening is not None
        task = reader._opening.task
        assert not task.done()
        calls[0].cancel()
        await asyncio.wait(calls)
        assert task.cancelled()
        await reader.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_all_that_wait_for_an_opening_have_its_outcome(fails: bool) -> None:
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        await owner.create(LOG)
        held = Held(client)
        reader = client.reader("missing" if fails else LOG)
        calls = [asyncio.create_task(reader.open()) for _ in range(3)]
        await held.reached()
        held.go_on()
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == (
            ["LogNotFoundError"] * 3 if fails else ["NoneType"] * 3
        )
        await reader.close()


async def test_a_poll_whose_time_has_ended_keeps_the_opening() -> None:
    """Also when a call is cancelled that waits for it since."""
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        await owner.create(LOG)
        held = Held(client)
        reader = client.reader(LOG)
        assert await reader.poll(0) is None
        opening = asyncio.create_task(reader.open())
        await held.reached()
        opening.cancel()
        await asyncio.wait((opening,))
        held.go_on()
        asked = store_of(client).asked
        await reader.open()
        assert asked.count("read_record") == 2, "one opening: the name, and the record"
        await reader.close()


@pytest.mark.parametrize("place", [MessageId(1, 2, 0), "latest"])
async def test_a_reader_that_could_not_open_is_where_it_was_asked_to_start(place: Where) -> None:
    """A consumer that stores the position however it ends does not begin the log again."""
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer(LOG, create=True):
            pass
        reader = client.reader(LOG, place, config=ReaderConfig(unavailable_timeout_s=0))
        store_of(client).away = True
        with pytest.raises(MetadataUnavailableError):
            await reader.open()
        assert reader.position == (place if isinstance(place, MessageId) else EARLIEST_ID)
        await reader.close()
