"""The production ledger client on the simulated machine: bookies that hang and vanish, a writer that is killed."""

from __future__ import annotations

import asyncio
import itertools

from dlog.testing.kernel.environment import SimulatedEnvironment
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.seeds import Seeds
from ledger.client import LedgerClient
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId, BookieInfo, EntryId, QuorumSizes
from tests.helpers.ledger.scripted_bookies import ScriptedBookie, _Peer

PORT = 3181
_names = itertools.count()


class Run:
    """Four bookies, a writer that is killed while it appends, and a second client that recovers its ledger."""

    def __init__(self, seed: int) -> None:
        self.loop = SimulatedLoop(Seeds(seed))
        self.faults = self.loop.seeds.stream("faults")
        self.acked: dict[int, bytes] = {}
        self.ledger_id = None
        self.read: list[bytes] = []

    def run(self) -> str:
        try:
            self.loop.run(self.main())
            return self.loop.trace.digest()
        finally:
            self.loop.close()

    async def main(self) -> None:
        loop = self.loop
        self.store = await open_store(
            f"memory:simulated-{next(_names)}", SimulatedEnvironment(loop.seeds, loop, loop.world)
        )
        await self.store.init_cluster()
        for number in range(4):
            node = loop.boot(f"bookie-{number}")
            await loop.create_task_on(node, self.bookie(node.address))
        writer = loop.boot("writer")
        loop.create_task_on(writer, self.write(writer))
        faults = loop.create_task(self.torment())
        await asyncio.sleep(self.faults.uniform(1, 20))
        loop.kill(writer)
        faults.cancel()
        loop.network.heal_all()
        for number in range(4):
            loop.resume(loop.node_named(f"bookie-{number}"))
        reader = loop.boot("reader")
        if self.ledger_id is not None:
            await loop.create_task_on(reader, self.recover(reader))

    async def bookie(self, address: str) -> None:
        scripted = ScriptedBookie()
        await self.loop.create_server(lambda: _Peer(scripted), address, PORT)
        scripted.bookie_id = BookieId(f"{address}:{PORT}")
        await self.store.register_bookie(BookieInfo(bookie_id=scripted.bookie_id, host=address, port=PORT))

    async def client(self, node) -> LedgerClient:
        client = LedgerClient(self.store, environment=SimulatedEnvironment(self.loop.seeds, self.loop, node))
        await client.start()
        return client

    async def write(self, node) -> None:
        client = await self.client(node)
        handle = await client.create(QuorumSizes(ensemble=3, write=3, ack=2))
        self.ledger_id = handle.ledger_id
        for number in itertools.count():
            payload = b"entry %d" % number
            try:
                self.acked[await handle.add(payload)] = payload
            except LogStoreError:
                return
            await asyncio.sleep(0.02)

    async def recover(self, node) -> None:
        client = await self.client(node)
        async with asyncio.timeout(600):
            handle = await client.open_with_recovery(self.ledger_id)
            while len(self.read) <= handle.last_readable:
                entries = await handle.read(EntryId(len(self.read)), handle.last_readable)
                self.read += [bytes(entry.payload) for entry in entries]
        await client.close()

    async def torment(self) -> None:
        chance, loop, network = self.faults, self.loop, self.loop.network
        while True:
            await asyncio.sleep(chance.expovariate(0.5))
            name = f"bookie-{chance.randrange(4)}"
            match chance.randrange(5):
                case 0:
                    network.cut("writer", name, one_way=chance.random() < 0.5)
                case 1 if connections := network.connections("writer", name):
                    network.reset(chance.choice(connections))
                case 2 if connections := network.connections("writer", name):
                    network.half_open(chance.choice(connections))
                case 3:
                    network.clog(name, "writer", chance.uniform(0, 2))
                case 4:
                    loop.pause(loop.node_named(name))
                    loop.call_later(chance.uniform(0, 5), loop.resume, loop.node_named(name))
            if chance.random() < 0.5:
                network.heal_all()


def test_what_was_acknowledged_is_read_after_recovery_whatever_the_network_did() -> None:
    acked = recovered = 0
    for seed in range(30):
        run = Run(seed)
        run.run()
        assert all(run.read[entry_id] == payload for entry_id, payload in run.acked.items()), seed
        acked += len(run.acked)
        recovered += len(run.read)
    assert recovered >= acked > 1000


def test_the_production_client_runs_the_same_way_twice() -> None:
    for seed in (3, 4):
        assert Run(seed).run() == Run(seed).run()
