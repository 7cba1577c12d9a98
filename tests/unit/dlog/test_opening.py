"""Opening a writer or a client: awaited or entered, cancelled at any time, and only of what is there."""

from __future__ import annotations

import asyncio
import gc
import math

import pytest

from dlog import aio
from dlog.errors import LogNotFoundError
from ledger.errors import ConfigurationError, NotEnoughBookiesError
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.blocking_log import blocking_log
from tests.helpers.log.scripted_log import payloads, scripted_log, store_of


async def test_a_writer_is_entered_or_awaited() -> None:
    async with scripted_log() as log, log.client() as client:
        async with client.open_writer("orders", create=True) as entered:
            await entered.append(b"one")
        assert not entered.active
        awaited = await client.open_writer("orders")
        await awaited.append(b"two")
        assert awaited.active
        async with await client.open_writer("orders") as both:
            await both.append(b"three")
        task = asyncio.create_task(client.open_writer("orders"))
        async with asyncio.timeout(10), await task as of_a_task:
            await of_a_task.append(b"four")
        assert await payloads(client, "orders") == [b"one", b"two", b"three", b"four"]


async def test_a_block_that_raises_closes_its_writer() -> None:
    async with scripted_log() as log, log.client() as client:
        with pytest.raises(RuntimeError, match="the block's own"):
            async with client.open_writer("orders", create=True) as writer:
                raise RuntimeError("the block's own")
        assert not writer.active


async def test_an_opening_cancelled_at_any_time_leaves_no_writer_behind() -> None:
    """Cancelled at each turn of the loop: afterwards the client has either no writer, or one that works."""
    async with scripted_log() as log, log.client() as client:
        await client.create("orders")
        cancelled = 0
        for turns in range(1, 400):
            task = asyncio.create_task(_append(client.open_writer("orders")))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            cancelled += 1
            assert client.writers == frozenset()
        assert cancelled > 10
        async with client.open_writer("orders") as writer:
            await writer.append(b"last")
        assert (await payloads(client, "orders"))[-1] == b"last"


async def _append(opening: aio.Opening[aio.LogWriter]) -> None:
    async with opening as writer:
        await writer.append(b"one")


async def test_an_opening_of_a_client_that_is_closed_at_any_time_leaves_no_writer_behind() -> None:
    """Closed at each turn of the loop: the opening fails, or its writer has been closed."""
    async with scripted_log() as log:
        ended = 0
        for turns in range(1, 400):
            async with log.client() as client:
                task = asyncio.create_task(client.open_writer("orders", create=True))
                for _ in range(turns):
                    await asyncio.sleep(0)
                was_open = task.done()
                async with asyncio.timeout(GUARD_S):
                    await client.close()
                    await asyncio.wait([task])
                assert client.writers == frozenset()
                if was_open:
                    break
                with pytest.raises(ConfigurationError, match=r"client was closed .* log orders"):
                    await task
                ended += 1
        assert ended > 10


async def test_a_standby_ends_with_its_client() -> None:
    async with scripted_log() as log, log.client() as owner, log.client() as client:
        writer = await owner.open_writer("orders", create=True)
        standby = asyncio.create_task(
            client.open_writer("orders", wait_for_current_owner=math.inf, hand_over=False)
        )
        await until(lambda: store_of(client).answered.count("read_record") > 5)
        await client.close()
        with pytest.raises(ConfigurationError, match="client was closed"):
            await asyncio.wait_for(standby, GUARD_S)
        await writer.append(b"one")


async def test_an_opening_that_nobody_awaits_is_reported() -> None:
    async with scripted_log() as log, log.client() as client:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            client.open_writer("orders")
            gc.collect()


async def test_a_log_is_created_only_when_asked() -> None:
    async with scripted_log() as log, log.client() as client:
        with pytest.raises(
            LogNotFoundError, match=r"default/orders does not exist: create it first, or .* create=True"
        ):
            await client.open_writer("orders")
        assert await client.list() == []
        await (await client.open_writer("orders", create=True)).close()
        await (await client.open_writer("orders", create=True)).close()
        await (await client.open_writer("orders")).close()


async def test_a_forgotten_await_is_named() -> None:
    async with scripted_log() as log, log.client() as client:
        opening = client.open_writer("orders", create=True)
        with pytest.raises(AttributeError, match="no 'append' yet: write `await`"):
            opening.append(b"one")  # type: ignore[attr-defined]
        await (await opening).close()


@pytest.mark.parametrize(
    ("full", "sentence"),
    [
        (3, r"no bookie can be written at .*, 3 registered read-only \(disks nearly full\?\): free space"),
        (2, r"but only 1 can be written at .*, 2 more registered read-only \(.*\): free space"),
    ],
)
async def test_bookies_that_are_read_only_are_named(full: int, sentence: str) -> None:
    async with scripted_log() as log:
        for bookie in log.bookies[:full]:
            await bookie.become_read_only()
        async with log.client() as client:
            with pytest.raises(NotEnoughBookiesError, match=sentence):
                await client.open_writer("orders", create=True)


async def test_without_any_bookie_starting_some_is_advised() -> None:
    async with scripted_log(bookies=0) as log, log.client() as client:
        with pytest.raises(NotEnoughBookiesError, match=r"no bookie is registered at .*: start some"):
            await client.open_writer("orders", create=True)


def test_a_blocking_writer_creates_only_when_asked() -> None:
    with blocking_log() as log:
        with pytest.raises(LogNotFoundError, match="create=True"):
            log.client().open_writer("orders")
        log.client().open_writer("orders", create=True).close()
