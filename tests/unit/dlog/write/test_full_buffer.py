"""Appends to a writer whose buffer is full: what does not wait, and what a message has that did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.errors import AppendAbortedError, MessageTooLargeError
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import ScriptedLog, payloads, scripted_log

SMALL = 2_000
"""Bytes of the buffer: one entry, and no more."""


@asynccontextmanager
async def full_writer() -> AsyncIterator[tuple[ScriptedLog, LogClient, LogWriter]]:
    """The bookies are silent, so nothing is given back."""
    small = {"batching": BatchLimits(entry_bytes_max=SMALL, batch_bytes=SMALL), "buffer_bytes_max": SMALL}
    async with scripted_log() as log, log.client(**small) as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.be_silent()
        await writer.submit(b"first" * 100)
        await writer.submit_many([b"second" * 200])
        assert writer.free_bytes <= 0
        yield log, client, writer
        for bookie in log.bookies:
            bookie.speak()
        await writer.flush()


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ((5,), ConfigurationError),
        (("text",), ConfigurationError),
        ((b"payload", 5), ConfigurationError),
        ((b"payload", "text"), ConfigurationError),
        ((b"p" * 2 * SMALL,), MessageTooLargeError),
        ((memoryview(bytes(4 * SMALL)).cast("Q"),), MessageTooLargeError),
    ],
)
async def test_what_is_not_valid_is_refused_without_waiting(message: Any, error: type[Exception]) -> None:
    async with full_writer() as (_, _, writer):
        for call in (writer.append, writer.submit):
            async with asyncio.timeout(GUARD_S):
                with pytest.raises(error):
                    await call(*message)


async def test_a_message_that_waits_is_as_it_was_passed() -> None:
    """The caller may use its buffer again."""
    async with full_writer() as (log, client, writer):
        payload, headers = bytearray(b"third"), [(b"name", b"value")]
        waiting = asyncio.create_task(writer.append(payload, None, headers))
        await asyncio.sleep(0)
        payload[:] = b"other"
        headers.clear()
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            await waiting
        async with client.reader("orders", until="latest") as reader:
            messages = [message async for message in reader]
        assert [message.payload for message in messages] == [b"first" * 100, b"second" * 200, b"third"]
        assert messages[-1].headers == ((b"name", b"value"),)


@pytest.mark.parametrize("call", ["append", "append_many", "producer"])
async def test_a_call_that_gets_space_in_the_turn_in_which_its_writer_ends_is_refused(call: str) -> None:
    """What is given back wakes it; before it runs, a callback of the program aborts the writer."""
    small = {"batching": BatchLimits(entry_bytes_max=SMALL, batch_bytes=SMALL), "buffer_bytes_max": SMALL}
    async with scripted_log() as log, log.client(**small) as client:
        writer = await client.open_writer("orders", create=True)
        producer = await writer.producer("billing")
        for bookie in log.bookies:
            bookie.be_silent()
        first, second = [await writer.submit_many([payload * 200]) for payload in (b"first", b"second")]
        first.add_done_callback(lambda _: writer.abort())
        assert writer.free_bytes <= 0
        calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "append": lambda: writer.append(b"third"),
            "append_many": lambda: writer.append_many([b"third"]),
            "producer": lambda: producer.append(b"third", sequence=1),
        }
        waiting = asyncio.create_task(calls[call]())
        await until(lambda: bool(writer._queue._budget._waiting))
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError):
                await waiting
            assert (await first)[0].entry_id == 0
            await asyncio.wait([second])
        assert (await payloads(client, "orders"))[1:] in ([], [b"second" * 200])
