"""The cells of the matrix, and what a scenario is given to play one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import cast

from kazoo.client import KazooClient

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig, WireProtocol
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from tests.helpers.apache.cluster import Bookie, MixedCluster
from tests.helpers.apache.java_client import JavaClient
from tests.helpers.matrix.sides import AllowedStore, JavaSide, OurSide, Side

WRITERS = ("ours", "java")
MIXES = {"ours": (3, 0), "apache": (0, 3), "2+1": (2, 1), "1+2": (1, 2)}
"""How many bookies of ours and of Apache's an ensemble has."""
WIRES = ("v2", "v3")
DIGESTS = ("CRC32C", "CRC32", "HMAC", "DUMMY")


@dataclass(frozen=True)
class Cell:
    """Who writes on which bookies, both clients speaking this version of the protocol."""

    writer: str
    mix: str
    wire: str
    digest: str

    @property
    def row(self) -> tuple[str, str, str]:
        return self.mix, self.writer, self.wire


CELLS = [
    Cell(writer, mix, wire, digest) for mix, writer, wire, digest in product(MIXES, WRITERS, WIRES, DIGESTS)
]


@dataclass(frozen=True)
class Scene:
    """One cell ready to be played: the writing side, the other one, and the bookies of its ensembles."""

    cell: Cell
    writer: Side
    other: Side
    members: tuple[Bookie, ...]
    cluster: MixedCluster
    kazoo: KazooClient

    @property
    def digest(self) -> str:
        return self.cell.digest


@dataclass
class Stage:
    """Both clients in one version of the protocol, and which bookies they may use."""

    cluster: MixedCluster
    wire: str
    ours: OurSide
    java: JavaSide
    kazoo: KazooClient
    store: AllowedStore

    async def allow(self, members: tuple[Bookie, ...], spares: tuple[Bookie, ...]) -> None:
        """New ensembles are chosen among these members from now on, replacements among the spares as well.

        Our client knows no such difference, so it sees spares only with `allow_spares`.
        """
        ids = [bookie.bookie_id for bookie in members]
        self.store.allow(ids)
        all_ids = [*ids, *(bookie.bookie_id for bookie in spares)]
        await self.java.client.process.call("allow", ",".join(ids), ",".join(all_ids))

    def allow_spares(self, bookies: tuple[Bookie, ...]) -> None:
        self.store.allow(bookie.bookie_id for bookie in bookies)

    def scene(self, cell: Cell) -> Scene:
        writer, other = (self.ours, self.java) if cell.writer == "ours" else (self.java, self.ours)
        return Scene(cell, writer, other, members_of(self.cluster, cell.mix), self.cluster, self.kazoo)


def members_of(cluster: MixedCluster, mix: str) -> tuple[Bookie, ...]:
    ours, apache = MIXES[mix]
    return (*cluster.ours[:ours], *cluster.apache[:apache])


def spares_of(cluster: MixedCluster, mix: str) -> tuple[Bookie, ...]:
    """The bookies that replace killed ones: of the kinds that the mix has."""
    ours, apache = MIXES[mix]
    return (*(cluster.ours[3:] if ours else ()), *(cluster.apache[3:] if apache else ()))


@asynccontextmanager
async def stage(cluster: MixedCluster, java: JavaClient, wire: str) -> AsyncIterator[Stage]:
    store = await open_store(cluster.uri)
    hiding = AllowedStore(store)
    config = LedgerClientConfig(wire=WireProtocol(wire))
    client = LedgerClient(cast(MetadataStore, hiding), config=config)
    kazoo = KazooClient(cluster.zookeeper.address)
    try:
        await client.start()
        kazoo.start()
        yield Stage(cluster, wire, OurSide(client), JavaSide(java), kazoo, hiding)
    finally:
        kazoo.stop()
        kazoo.close()
        await client.close()
        await store.close()
