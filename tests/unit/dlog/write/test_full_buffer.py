"""Appends to a writer whose buffer is full: what does not wait, and what a message has that did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.errors import MessageTooLargeError
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import ScriptedLog, scripted_log

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
