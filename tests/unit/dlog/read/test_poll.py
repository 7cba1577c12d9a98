"""`poll` returns the next message or None at its time, and loses nothing, however short that is."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from dlog.model import Message
from dlog.read.config import ReaderConfig
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, MetadataUnavailableError
from tests.helpers.log.blocking_log import blocking_log
from tests.helpers.log.scripted_log import scripted_log, store_of

COUNT = 200


@pytest.mark.parametrize("timeout_s", [0, 0.0001, 0.003])
async def test_polls_of_any_length_return_everything_once(timeout_s: float) -> None:
    """Also the first ones, which are shorter than the opening of the reader."""
    async with (
        scripted_log() as log,
        log.client() as client,
        client.open_writer("orders", create=True) as writer,
    ):
        reader = client.reader("orders")
        appending = asyncio.create_task(_append_slowly(writer))
        found: list[Message] = []
        async with asyncio.timeout(20):
            while len(found) < COUNT:
                if (message := await reader.poll(timeout_s)) is not None:
                    found.append(message)
        await appending
        assert [message.payload for message in found] == [b"%d" % number for number in range(COUNT)]
        assert await reader.poll(0.05) is None
        await reader.close()


@pytest.mark.parametrize("timeout_s", [-1, -0.001, math.nan, math.inf, "1"])
async def test_a_wrong_time_is_refused(timeout_s: object) -> None:
    async with scripted_log() as log, log.client() as client:
        reader = client.reader("orders")
        with pytest.raises(ConfigurationError, match="timeout_s must be"):
            await reader.poll(timeout_s)  # type: ignore[arg-type]
        await reader.close()


@pytest.mark.parametrize("timeout_s", [-1, math.nan])
def test_a_wrong_time_of_a_blocking_poll_is_refused(timeout_s: float) -> None:
    with blocking_log() as log:
        client = log.client()
        client.create("orders")
        with (
            client.reader("orders") as reader,
            pytest.raises(ConfigurationError, match="timeout_s must be"),
        ):
            reader.poll(timeout_s)


async def _append_slowly(writer: LogWriter) -> None:
    for number in range(0, COUNT, 2):
        await writer.append_many([b"%d" % number, b"%d" % (number + 1)])
        if number % 20 == 0:
            await asyncio.sleep(0.01)


async def test_an_opening_longer_than_the_poll_goes_on() -> None:
    async with scripted_log() as log, log.client() as client:
        await client.create("orders")
        store = store_of(client)
        gate = asyncio.Event()
        find = client.logs.find

        async def slow_find(name: object) -> object:
            await gate.wait()
            return await find(name)  # type: ignore[arg-type]

        client.logs.find = slow_find  # type: ignore[method-assign,assignment]
        reader = client.reader("orders")
        assert await reader.poll(0.02) is None
        asked = len(store.asked)
        assert await reader.poll(0) is None
        gate.set()
        await reader.open()
        assert store.asked[asked:].count("read_record") == 2, "one opening: the name, and the record"
        await reader.close()


async def test_an_opening_that_failed_is_reported_and_tried_again() -> None:
    async with scripted_log() as log, log.client() as client:
        await client.create("orders")
        store_of(client).away = True
        reader = client.reader("orders", until="latest", config=ReaderConfig(unavailable_timeout_s=0))
        with pytest.raises(MetadataUnavailableError):
            await reader.poll(5)
        store_of(client).away = False
        assert await reader.poll(5) is None
        assert reader.ended
        await reader.close()


async def test_a_reader_closed_while_it_opens_is_closed() -> None:
    async with scripted_log() as log, log.client() as client:
        await client.create("orders")
        client.logs.find = lambda name: asyncio.sleep(20)  # type: ignore[method-assign,assignment,misc]
        reader = client.reader("orders")
        assert await reader.poll(0) is None
        polling = asyncio.create_task(reader.poll(10))
        await asyncio.sleep(0.01)
        await reader.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await polling


def test_a_blocking_poll_keeps_its_time_next_to_a_thread_that_iterates() -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        reader = client.reader("orders")
        iterated: list[Message] = []
        other = threading.Thread(target=lambda: iterated.append(next(reader)))
        other.start()
        time.sleep(0.2)
        began = time.monotonic()
        assert reader.poll(0.1) is None
        assert time.monotonic() - began < 5
        writer.append_many([b"a", b"b"])
        other.join(10)
        rest = reader.poll(10)
        assert rest is not None
        assert {iterated[0].payload, rest.payload} == {b"a", b"b"}
        reader.close()


@pytest.mark.parametrize("timeout_s", [0, 0.001])
def test_blocking_polls_of_any_length_return_everything_once(timeout_s: float) -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        reader = client.reader("orders")
        for number in range(COUNT):
            writer.submit(b"%d" % number)
        found: list[bytes | None] = []
        give_up_at = time.monotonic() + 20
        while len(found) < COUNT and time.monotonic() < give_up_at:
            if (message := reader.poll(timeout_s)) is not None:
                found.append(message.payload)
        assert found == [b"%d" % number for number in range(COUNT)]
        reader.close()
