"""A run with everything in it: echo servers and clients, thousands of connections, every fault of the network.

`python -m tests.helpers.simulation.echo_load SEED` prints the digest of its trace, so that runs under different hash
seeds can be compared. The clients check that what comes back is a prefix of what they sent.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from random import Random

from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.seeds import Seeds

SERVERS = ("server-1", "server-2", "server-3")
CLIENTS = ("client-1", "client-2", "client-3", "client-4")
PORT = 3181


class EchoServer(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = bytearray(4096)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.transport.write(memoryview(self.buffer)[:nbytes])

    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


class EchoClient(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.wanted = 0
        self.enough = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.data += data
        if len(self.data) >= self.wanted and not self.enough.done():
            self.enough.set_result(None)

    def connection_lost(self, exc):
        if not self.enough.done():
            self.enough.set_exception(exc or ConnectionError("closed"))
            self.enough.exception()


class EchoLoad:
    """Clients open connections one after another and in parallel, while faults strike."""

    def __init__(self, seed: int, connections_each: int) -> None:
        self.loop = SimulatedLoop(Seeds(seed))
        self.connections_each = connections_each
        self.outcomes: Counter[str] = Counter()
        self.faults = self.loop.seeds.stream("faults")
        self.addresses: dict[str, str] = {}

    def run(self) -> str:
        try:
            self.loop.run(self.main())
            return self.loop.trace.digest()
        finally:
            self.loop.close()

    async def main(self) -> None:
        for name in SERVERS:
            self.start_server(name)
        clients = [
            self.loop.create_task_on(self.loop.boot(name), self.client(self.loop.seeds.stream(name)))
            for name in CLIENTS
        ]
        faults = self.loop.create_task(self.torment())
        await asyncio.gather(*clients)
        faults.cancel()
        await asyncio.wait([faults])
        self.loop.network.heal_all()

    def start_server(self, name: str) -> None:
        node = self.loop.boot(name)
        self.addresses[name] = node.address
        self.loop.create_task_on(node, self.serve())

    async def serve(self) -> None:
        server = await self.loop.create_server(EchoServer, "0.0.0.0", PORT)
        await server.serve_forever()

    async def client(self, chance: Random) -> None:
        slots = asyncio.Semaphore(20)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.connections_each):
                await slots.acquire()
                task = tasks.create_task(self.talk(chance))
                task.add_done_callback(lambda _: slots.release())

    async def talk(self, chance: Random) -> None:
        transport, sent = None, b""
        try:
            async with asyncio.timeout(5):
                transport, protocol = await self.loop.create_connection(
                    EchoClient, self.addresses[chance.choice(SERVERS)], PORT
                )
                for _ in range(chance.randint(1, 5)):
                    piece = chance.randbytes(chance.choice((1, 100, 10_000, 200_000)))
                    sent += piece
                    protocol.wanted, protocol.enough = len(sent), self.loop.create_future()
                    transport.write(piece)
                    await protocol.enough
                assert protocol.data == sent
            self.outcomes["echoed"] += 1
        except OSError as error:
            self.outcomes[type(error).__name__] += 1
        finally:
            if transport is not None:
                assert bytes(protocol.data) == sent[: len(protocol.data)], "an echo that was never sent"
                transport.abort() if chance.random() < 0.5 else transport.close()

    async def torment(self) -> None:
        chance, loop, network = self.faults, self.loop, self.loop.network
        while True:
            await asyncio.sleep(chance.expovariate(20))
            one, other = chance.choice(CLIENTS), chance.choice(SERVERS)
            if chance.random() < 0.5:
                one, other = other, one
            connections = network.connections()
            match chance.randrange(13):
                case 0 | 1 | 2 if connections:
                    fault = chance.choice((network.reset, network.half_open))
                    fault(chance.choice(connections))
                case 3 | 4 if connections:
                    network.stall(chance.choice(connections), chance.expovariate(1))
                case 5:
                    network.cut(one, other)
                case 6:
                    network.cut(one, other, one_way=True)
                case 7:
                    network.clog(one, other, chance.expovariate(1))
                case 8:
                    name = chance.choice(SERVERS)
                    network.refuse(name)
                    loop.call_later(0.5, network.refuse, name, False)
                case 9:
                    network.isolate(chance.choice(SERVERS))
                case 10:
                    network.split([SERVERS[:2], [*SERVERS[2:], *CLIENTS]])
                case 11:
                    node = loop.node_named(chance.choice(SERVERS))
                    loop.pause(node)
                    loop.call_later(chance.expovariate(1), loop.resume, node)
                case 12:
                    name = chance.choice(SERVERS)
                    if loop.node_named(name).alive:
                        loop.kill(loop.node_named(name), host_too=chance.random() < 0.5)
                        loop.call_later(chance.expovariate(2), self.start_server, name)
            if chance.random() < 0.3:
                network.heal_all()


if __name__ == "__main__":
    print(EchoLoad(int(sys.argv[1]), int(sys.argv[2])).run())
