"""Connections that go half-open under the production clients: the kernel reports nothing for a quarter of an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bookie_server.config import BookieConfig
from bookie_server.server import BookieServer
from bookie_server.storage.config import StorageConfig
from dlog.client import LogClient
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.kernel.environment import SimulatedEnvironment
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.nodes import Node
from dlog.testing.metadata.server import SimulatedMetadata
from ledger.config import LedgerClientConfig
from ledger.errors import UnavailableError
from ledger.model import QuorumSizes
from tests.helpers.simulation.loop import simulation

BOOKIES = [f"bookie-{number}" for number in range(3)]
ANSWER_S = 5.0
"""The default timeout of a read and of an add."""
IDLE_S = LedgerClientConfig().idle_connection_s

T = TypeVar("T")


class Cluster:
    """Three bookies and a metadata store, all healthy."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.metadata = SimulatedMetadata(loop.seeds.stream, loop.trace)

    async def start(self) -> None:
        store = self.metadata.connect(
            "world", SimulatedEnvironment(self.loop.seeds, self.loop, self.loop.world)
        )
        await store.init_cluster()
        for name in BOOKIES:
            node = self.loop.boot(name)
            await self.loop.create_task_on(node, self._serve(node))

    async def _serve(self, node: Node) -> None:
        environment = SimulatedEnvironment(self.loop.seeds, self.loop, node)
        store = self.metadata.connect(node.name, environment)
        storage = StorageConfig(
            journal_directory=Path("/data/journal"),
            ledger_directory=Path("/data/ledgers"),
            journal_segment_bytes=256 * 1024,
        )
        config = BookieConfig(metadata=self.metadata.uri, storage=storage, host=node.address)
        disk = SimulatedDisk(self.loop.seeds.stream, self.loop.trace, node.name)
        await BookieServer(config, store, disk, environment).start()

    async def on(self, name: str, program: Callable[[LogClient], Awaitable[T]]) -> T:
        """Run a program, with a client of its own, on a host called so."""
        node = self.loop.boot(name)

        async def main() -> T:
            environment = SimulatedEnvironment(self.loop.seeds, self.loop, node)
            client = LogClient(self.metadata.connect(name, environment), environment=environment)
            await client.start()
            return await program(client)

        return await self.loop.create_task_on(node, main())

    def silence(self, name: str) -> int:
        """Let every connection that the host has to a bookie go half-open; returns how many there are."""
        connections = self.loop.network.connections(name)
        for each in connections:
            self.loop.network.half_open(each)
        return len(connections)


def play(scene: Callable[[Cluster], Awaitable[T]], seed: int = 1) -> T:
    async def main(loop: SimulatedLoop) -> T:
        cluster = Cluster(loop)
        await cluster.start()
        async with asyncio.timeout(600):
            return await scene(cluster)

    with simulation(seed) as loop:
        return loop.run(main(loop))


async def append_for_ever(client: LogClient) -> None:
    async with client.open_writer("log", create=True) as writer:
        while True:
            await writer.append(b"%f" % asyncio.get_running_loop().time())
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", range(2))
def test_a_tailing_reader_whose_every_connection_goes_half_open_goes_on(seed: int) -> None:
    """Bookies, writer and store are well. One long poll, one look at the LAC, and then it connects anew."""

    async def scene(cluster: Cluster) -> None:
        loop = cluster.loop
        writing = asyncio.ensure_future(cluster.on("writer", append_for_ever))
        latest = [0.0]

        async def follow(client: LogClient) -> None:
            async with client.reader("log", start="earliest") as reader:
                async for message in reader:
                    latest[0] = float(message.payload)

        await asyncio.sleep(0.5)
        reading = asyncio.ensure_future(cluster.on("reader", follow))
        for _ in range(3):
            await asyncio.sleep(20 + loop.seeds.stream("moments").random())
            assert loop.time() - latest[0] < 0.5 and not reading.done()
            assert cluster.silence("reader") >= len(BOOKIES)
            silenced = loop.time()
            while latest[0] < silenced:  # noqa: ASYNC110 - what is waited for has no event of its own
                await asyncio.sleep(0.1)
            assert loop.time() - silenced < 2 * ANSWER_S + 2
        writing.cancel()
        reading.cancel()

    play(scene, seed)


def test_a_reader_of_a_sealed_ledger_whose_every_connection_goes_half_open_goes_on() -> None:
    """Entry and batch reads, without a long poll."""

    async def scene(cluster: Cluster) -> None:
        async def write_and_read(client: LogClient) -> None:
            handle = await client.ledgers.create(QuorumSizes())
            for number in range(20):
                await handle.add(b"%d" % number)
            await handle.close()
            reader = await client.ledgers.open(handle.ledger_id)
            assert len(await reader.read(0, 19)) == 20
            assert cluster.silence("client") >= len(BOOKIES)
            started = asyncio.get_running_loop().time()
            while True:
                try:
                    assert len(await reader.read(0, 9)) == 10
                    break
                except UnavailableError:
                    await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() - started < ANSWER_S + 2

        await cluster.on("client", write_and_read)

    play(scene)


@pytest.mark.parametrize("after_s", [0.0, 0.003, 0.01], ids=["before it", "early in it", "late in it"])
def test_a_takeover_whose_every_connection_goes_half_open_is_done_soon(after_s: float) -> None:
    """Connections under way are lost too, so it may take a timeout, and another."""

    async def scene(cluster: Cluster) -> None:
        async def take_over_again_and_again(client: LogClient) -> None:
            loop = asyncio.get_running_loop()
            for attempt in range(3):
                if attempt:
                    assert cluster.silence("other") > 0
                started = loop.time()
                if attempt:
                    loop.call_later(after_s, cluster.silence, "other")
                while True:
                    try:
                        writer = await client.open_writer("log", create=True)
                        break
                    except UnavailableError:
                        await asyncio.sleep(0.1)
                await writer.append(b"mine")
                assert loop.time() - started < 3 * ANSWER_S + 2
                await asyncio.sleep(1)

        writing = asyncio.ensure_future(cluster.on("writer", append_for_ever))
        await asyncio.sleep(2)
        await cluster.on("other", take_over_again_and_again)
        await asyncio.gather(writing, return_exceptions=True)

    play(scene)


@pytest.mark.parametrize("seed", range(2))
def test_a_takeover_does_not_rely_on_connections_that_were_idle(seed: int) -> None:
    """All that this client had open has gone half-open unnoticed: it connects anew, and waits for nothing."""

    async def scene(cluster: Cluster) -> None:
        async def take_over_twice(client: LogClient) -> None:
            async with client.open_writer("log", create=True) as writer:
                await writer.append(b"mine")
            again = asyncio.ensure_future(cluster.on("another", append_for_ever))
            await asyncio.sleep(IDLE_S + 1)
            assert cluster.silence("other") >= len(BOOKIES)
            async with asyncio.timeout(1.0):
                await (await client.open_writer("log", create=True)).append(b"mine again")
            again.cancel()

        writing = asyncio.ensure_future(cluster.on("writer", append_for_ever))
        await asyncio.sleep(2)
        await cluster.on("other", take_over_twice)
        await asyncio.gather(writing, return_exceptions=True)

    play(scene, seed)


def test_connections_for_explicit_lacs_that_go_half_open_hold_a_writer_only_briefly() -> None:
    """Adds go and are answered on the others."""

    async def scene(cluster: Cluster) -> None:
        async def append(client: LogClient) -> None:
            loop = asyncio.get_running_loop()
            async with client.open_writer("log", create=True) as writer:
                await writer.append(b"first")
                await asyncio.sleep(1)
                pool, bookies = client.ledgers._pool, client.ledgers.bookies().writable
                lines = [pool.v3_connections.now(info.bookie_id) for info in bookies]
                for each in cluster.loop.network.connections("writer"):
                    if any(line is not None and each.client is line._transport for line in lines):
                        cluster.loop.network.half_open(each)
                started = loop.time()
                for _ in range(10):
                    await writer.append(b"more")
                assert ANSWER_S < loop.time() - started < ANSWER_S + 2

        await cluster.on("writer", append)

    play(scene)
