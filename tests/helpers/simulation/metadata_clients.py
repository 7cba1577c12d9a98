"""Clients of one simulated metadata store, alone and racing under faults."""

from __future__ import annotations

import asyncio

from dlog.testing.metadata.server import SimulatedMetadata
from dlog.testing.metadata.timing import MetadataTiming
from ledger.errors import (
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
)
from ledger.metadata.store import MetadataStore
from tests.helpers.simulation.disk import CountedEnvironment, CountedNotes, streams

TIMING = MetadataTiming(request_s=(0.01, 0.01), answer_s=(0.02, 0.02), watch_s=(0.1, 0.1), late_s=(3.0, 3.0))


class World:
    """A server, and a handle each for the nodes `a` and `b`; record /r holds b"old" at version 0."""

    def __init__(self, seed: int = 1, timing: MetadataTiming = TIMING) -> None:
        self.notes = CountedNotes()
        self.server = SimulatedMetadata(streams(seed), self.notes, timing=timing)
        self.a = self.connect("a")
        self.b = self.connect("b")

    def connect(self, node: str) -> MetadataStore:
        return self.server.connect(node, CountedEnvironment(node))

    async def begin(self) -> World:
        await self.a.init_cluster()
        await self.a.create_record("/r", b"old")
        return self

    async def value(self) -> bytes:
        return (await self.b.read_record("/r")).value


async def compete(store: MetadataStore, name: str, rounds: int) -> None:
    """Append unique lines to the record by compare-and-set, as often as it goes."""
    for number in range(rounds):
        try:
            found = await store.read_record("/r")
            await store.write_record("/r", found.value + f" {name}{number}".encode(), found.version)
        except (MetadataVersionError, MetadataOutcomeUnknownError, MetadataUnavailableError):
            await asyncio.sleep(0.01)


async def race_under_faults(seed: int) -> World:
    """Four clients race on one record while everything goes wrong."""
    timing = MetadataTiming(
        late_s=(0.1, 2.0), reconnect_s=(0.01, 0.5), request_timeout_s=1.0, session_timeout_s=2.0
    )
    world = await World(seed, timing).begin()
    world.server.faults.rates |= {
        "metadata_unavailable": 0.05,
        "metadata_request_lost": 0.05,
        "metadata_request_late": 0.05,
        "metadata_answer_lost": 0.05,
        "watch_late": 0.1,
        "watch_lost": 0.1,
        "watch_spurious": 0.1,
    }
    for store in (world.a, world.b):
        store.watch_record("/r", lambda: None)
    clients = {name: world.connect(name) for name in ("c", "d", "e", "f")}
    races = [asyncio.ensure_future(compete(store, name, 60)) for name, store in clients.items()]
    for node in ("c", "d", "c", "e"):
        await asyncio.sleep(0.3)
        world.server.partition(node)
        await asyncio.sleep(0.7)
        world.server.heal(node)
        world.server.expire("f")
    await asyncio.gather(*races)
    world.server.faults.rates.clear()
    await asyncio.sleep(10)
    return world
