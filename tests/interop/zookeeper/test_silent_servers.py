"""One server of several does not respond, as if its machine were down or cut off: a client goes on with another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import kazoo.protocol.connection
import pytest

from dlog.testing.relay import Relay
from ledger.errors import MetadataUnavailableError
from ledger.metadata.drivers import open_store
from tests.helpers.processes.zookeeper import ZooKeeperProcess


@pytest.fixture(autouse=True)
def servers_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client begins with the first one of the address, not with any."""
    monkeypatch.setattr(kazoo.protocol.connection.random, "shuffle", lambda servers: None)


@contextmanager
def machine_that_is_down() -> Iterator[str]:
    """Its address: nothing comes back from there, since the queue of connections to accept is full."""
    with socket.socket() as server, contextlib.ExitStack() as waiting:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            link = waiting.enter_context(socket.socket())
            link.setblocking(False)
            link.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@asynccontextmanager
async def relayed(server: ZooKeeperProcess) -> AsyncIterator[Relay]:
    relay = Relay()
    await relay.open(("127.0.0.1", server.port))
    try:
        yield relay
    finally:
        await relay.close()


async def opened_by_the_second(first: str, zookeeper: ZooKeeperProcess) -> None:
    store = await open_store(
        f"zk://{first};{zookeeper.address}{zookeeper.new_root()}?session_timeout_ms=60000&request_timeout_ms=3000"
    )
    await store.close()


async def test_a_machine_that_is_down_is_passed(zookeeper: ZooKeeperProcess) -> None:
    with machine_that_is_down() as down:
        await opened_by_the_second(down, zookeeper)


async def test_a_server_that_takes_connections_and_answers_nothing_is_passed(
    zookeeper: ZooKeeperProcess,
) -> None:
    async with relayed(zookeeper) as relay:
        relay.stall()
        await opened_by_the_second(f"127.0.0.1:{relay.port}", zookeeper)


async def test_a_server_that_falls_silent_is_left_although_requests_keep_coming(
    zookeeper: ZooKeeperProcess,
) -> None:
    async with relayed(zookeeper) as relay:
        store = await open_store(
            f"zk://127.0.0.1:{relay.port};{zookeeper.address}{zookeeper.new_root()}"
            f"?session_timeout_ms=6000&request_timeout_ms=2000"
        )
        await store.init_cluster()
        await store.create_record("/a", b"one")
        relay.stall()
        async with asyncio.timeout(30), asyncio.TaskGroup() as polls:
            polled = asyncio.Event()

            async def poll() -> None:
                with contextlib.suppress(MetadataUnavailableError):
                    await store.read_record("/a")
                    polled.set()

            while not polled.is_set():
                polls.create_task(poll())
                await asyncio.sleep(0.2)
        await store.close()
