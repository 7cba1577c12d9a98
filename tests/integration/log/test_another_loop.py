"""A client in loops that a program has made otherwise: a second `asyncio.run`, and one with a task factory."""

from __future__ import annotations

import asyncio

import pytest

import dlog.aio
from dlog.local.embedded import Standalone
from ledger.errors import ConfigurationError
from tests.helpers.eager_tasks import eager_task_factory

pytestmark = pytest.mark.integration


def test_a_client_in_another_loop_is_refused_and_does_not_wait(cluster: Standalone, log: str) -> None:
    """Without the check, opening a writer or a reader waited without end, also when it was cancelled."""

    async def use() -> dlog.aio.LogClient:
        client = await dlog.aio.connect(cluster.uri)
        async with client.open_writer(log, create=True) as writer:
            await writer.append(b"payload")
        return client

    async def use_again(client: dlog.aio.LogClient) -> None:
        before = await client.describe(log)
        reader = client.reader(log, until="latest")
        for call in (lambda: client.open_writer(log), reader.open, client.tail(log).open, client.close):
            with pytest.raises(ConfigurationError, match="connected in another event loop"):
                await call()
        assert await client.describe(log) == before

    with asyncio.Runner() as runner:
        client = runner.run(use())
        asyncio.run(use_again(client))
        runner.run(client.close())


async def test_what_follows_a_log_ends_with_an_error_when_the_program_cancels_all_tasks(
    cluster: Standalone, log: str
) -> None:
    """As one does at its end. A reader that only ended would be at the end of the log."""
    async with dlog.aio.connect(cluster.uri) as client:
        async with client.open_writer(log, create=True) as writer:
            await writer.append(b"payload")
        async with client.reader(log) as reader, client.metadata_cache() as cache:
            assert await reader.poll(10) is not None
            waiting = asyncio.ensure_future(cache.wait_for_change(cache.snapshot))
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task(), waiting}:
                task.cancel()
            with pytest.raises(ConfigurationError, match=r"cancelled by the program.*another reader"):
                await reader.poll(10)
            with pytest.raises(ConfigurationError, match=r"cancelled by the program.*metadata_cache"):
                await waiting


async def test_two_readers_follow_a_log_where_tasks_begin_when_they_are_made(
    cluster: Standalone, log: str
) -> None:
    """What comes with a long poll is read without waiting: the shared read ended before it was noted, and KeyError
    ended one of the readers.
    """
    asyncio.get_running_loop().set_task_factory(eager_task_factory)
    payloads = [b"%d" % number for number in range(60)]

    async def follow(client: dlog.aio.LogClient, is_there: asyncio.Event) -> list[bytes | None]:
        found: list[bytes | None] = []
        async for message in client.reader(log):
            is_there.set()
            found.append(message.payload)
            if len(found) == len(payloads):
                break
        return found

    async with (
        dlog.aio.connect(cluster.uri) as client,
        dlog.aio.connect(cluster.uri) as elsewhere,
        elsewhere.open_writer(log, create=True) as writer,
    ):
        await writer.append(payloads[0])
        there = [asyncio.Event(), asyncio.Event()]
        readers = [asyncio.create_task(follow(client, each)) for each in there]
        await asyncio.gather(*(each.wait() for each in there))
        for payload in payloads[1:]:
            await writer.append(payload)
            await asyncio.sleep(0.02)
        assert await asyncio.gather(*readers) == [payloads, payloads]
