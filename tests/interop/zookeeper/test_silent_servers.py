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
from tests.helpers.metadata.drivers import B1, bookie, eventually
from tests.helpers.processes.zookeeper import ZooKeeperProcess

SESSION_ENDS_S = 4.0
"""Below what closing waits for the server if others wait for the end of the session, and above everything else."""


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


# ---- the end of a handle, while no server answers


async def test_an_open_that_is_given_up_ends_without_waiting_for_a_session_that_it_has_not(
    zookeeper: ZooKeeperProcess,
) -> None:
    """After the limit of a call, or Ctrl-C: the caller's limit is a tenth of the store's."""
    async with relayed(zookeeper) as relay:
        relay.stall()
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await open_store(f"zk://127.0.0.1:{relay.port}/ledgers?request_timeout_ms=30000")
        assert loop.time() - began < SESSION_ENDS_S


@pytest.mark.parametrize("is_lost", [False, True], ids=["hangs", "connects again"])
async def test_a_handle_that_keeps_no_node_is_closed_without_the_servers_answer(
    zookeeper: ZooKeeperProcess, is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper ends its session, when it can; no other client waits for that."""
    async with relayed(zookeeper) as relay:
        store = await open_store(
            f"zk://127.0.0.1:{relay.port}{zookeeper.new_root()}?session_timeout_ms={6000 if is_lost else 60000}"
        )
        await store.init_cluster()
        await store.new_ledger_id()
        relay.stall()
        if is_lost:
            await eventually(lambda: "is lost" in caplog.text, 30.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await store.close()
        assert loop.time() - began < SESSION_ENDS_S


async def test_a_handle_with_a_registration_waits_for_a_slow_answer(zookeeper: ZooKeeperProcess) -> None:
    """On return others see that the bookie has left."""
    root = zookeeper.new_root()
    async with relayed(zookeeper) as relay:
        store = await open_store(f"zk://127.0.0.1:{relay.port}{root}?session_timeout_ms=60000")
        await store.init_cluster()
        await store.register_bookie(bookie(B1))
        other = await open_store(f"zk://{zookeeper.address}{root}")
        relay.stall()
        asyncio.get_running_loop().call_later(2.0, relay.heal)
        await store.close()
        assert not (await other.bookies()).is_registered(B1)
        await other.close()


async def test_a_bookie_does_not_wait_again_for_a_server_that_has_just_not_answered(
    zookeeper: ZooKeeperProcess,
) -> None:
    """It withdraws its registration before it closes its handle: one limit after the other was above what
    `dlog standalone` gives it."""
    async with relayed(zookeeper) as relay:
        store = await open_store(
            f"zk://127.0.0.1:{relay.port}{zookeeper.new_root()}?session_timeout_ms=60000&request_timeout_ms=1000"
        )
        await store.init_cluster()
        registration = await store.register_bookie(bookie(B1))
        relay.stall()
        with pytest.raises(MetadataUnavailableError, match="did not answer"):
            await registration.close()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await store.close()
        assert loop.time() - began < SESSION_ENDS_S
