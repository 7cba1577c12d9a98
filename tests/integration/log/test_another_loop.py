"""A client that is used in a second `asyncio.run`: its connections are of a loop that has ended."""

from __future__ import annotations

import asyncio

import pytest

import dlog.aio
from dlog.local.embedded import Standalone
from ledger.errors import ConfigurationError

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
