"""The cluster of a nemesis run: real bookies, each behind a relay, and a metadata store that faults can reach."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from dlog.testing.relay import BEHIND, FRONT, Relay
from ledger.metadata.drivers import open_store
from tests.helpers.nemesis.chaos import Action, Chaos
from tests.helpers.nemesis.sqlite_store import SqliteStore
from tests.helpers.nemesis.zookeeper_store import ZooKeeperStore
from tests.helpers.processes.python import Child, ChildFailedError, start_python


class Store(Protocol):
    """Where the metadata is, and what can happen to it."""

    async def start(self) -> None: ...

    async def uri_for(self, client: str) -> str:
        """The address for the client of this name, which no other one uses."""

    def actions(self, chaos: Chaos) -> list[tuple[int, Action]]:
        """Faults, each with its weight."""

    async def heal(self) -> None: ...

    async def close(self) -> None: ...


_START_S = 60.0

STORES: dict[str, type[SqliteStore] | type[ZooKeeperStore]] = {
    "sqlite": SqliteStore,
    "zookeeper": ZooKeeperStore,
}


class NemesisCluster:
    """Bookies in the order of their directories; they keep their ports when they are started again."""

    def __init__(self, directory: Path, store: Store) -> None:
        self.store = store
        self.bookies: list[Child] = []
        self.relays: list[Relay] = []
        self._directory = directory
        self._uris: list[str] = []

    def bookie_directory(self, number: int) -> Path:
        return self._directory / f"bookie-{number}"

    async def start(self, bookies: int) -> None:
        await self.store.start()
        store = await open_store(await self.store.uri_for("administrator"))
        try:
            await store.init_cluster()
        finally:
            await store.close()
        for number in range(bookies):
            self._uris.append(await self.store.uri_for(f"bookie-{number}"))
            self.relays.append(Relay())
            await self.relays[number].open()
        self.bookies += await asyncio.gather(*(self._start_bookie(number) for number in range(bookies)))

    async def restart(self, number: int) -> None:
        """Start bookie `number` again, after it was stopped or killed."""
        self.bookies[number] = await self._start_bookie(number)

    async def close(self) -> None:
        for bookie in self.bookies:
            if bookie.running:
                bookie.resume()
        await asyncio.gather(*(bookie.stop() for bookie in self.bookies))
        await asyncio.gather(*(relay.close() for relay in self.relays))
        await self.store.close()

    async def _start_bookie(self, number: int) -> Child:
        """It ends if it finds no metadata store, and is then started again, as its supervisor would do."""
        port = str(self.relays[number].port)
        command = ["-m", "bookie_server", "start", "--metadata", self._uris[number]]
        command += ["--data", str(self.bookie_directory(number))]
        command += ["--host", BEHIND, "--advertised", FRONT, "--port", port]
        give_up_at = time.monotonic() + _START_S
        while True:
            try:
                return await start_python(command)
            except ChildFailedError:
                if time.monotonic() > give_up_at:
                    raise


@asynccontextmanager
async def nemesis_cluster(directory: Path, metadata: str, bookies: int) -> AsyncIterator[NemesisCluster]:
    """In a fresh directory below `directory`; all is removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="cluster-", dir=directory))
    cluster = NemesisCluster(home, STORES[metadata](home))
    try:
        await cluster.start(bookies)
        yield cluster
    finally:
        await cluster.close()
        shutil.rmtree(home)
