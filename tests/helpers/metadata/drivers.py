"""What every conformance test uses: a driver under test, values to store, and patience with a deadline."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from dlog.testing.metadata.server import SimulatedMetadata
from dlog.testing.metadata.timing import MetadataTiming
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.metadata.sqlite.store import SqliteBackend
from ledger.metadata.sqlite.thread import SqliteThreads
from ledger.metadata.store import MetadataStore
from ledger.metadata.transactions.store import KeyValueStore
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import BookieId, BookieInfo, EntryId, Fragment, LedgerMetadata, QuorumSizes
from tests.helpers.simulation.disk import CountedNotes, streams

B1, B2, B3, B4 = (BookieId(f"127.0.0.1:{3181 + index}") for index in range(4))
WAIT_S = 10.0


class Driver:
    """Opens handles on one fresh cluster and closes them after the test."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._stores: list[MetadataStore] = []

    async def open(self) -> MetadataStore:
        """One more handle on the same store, initialised or not."""
        store = await open_store(self.uri)
        self._stores.append(store)
        return store

    async def reopen(self) -> MetadataStore:
        """A handle that the caller closes, from the address alone."""
        return await open_store(self.uri)

    async def cluster(self) -> MetadataStore:
        """A first handle, with a new cluster in the store."""
        store = await self.open()
        await store.init_cluster()
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class ApartDriver(Driver):
    """SQLite handles that share no thread and no connection, as if each were in a process of its own."""

    def __init__(self, path: str) -> None:
        super().__init__(f"sqlite:///{path}")
        self._path = path

    async def open(self) -> MetadataStore:
        environment = SystemEnvironment()
        backend = SqliteBackend(self.uri, self._path, environment, SqliteThreads())
        await backend.open()
        self._stores.append(KeyValueStore(backend, environment))
        return self._stores[-1]


class _NoSimulation(SystemEnvironment):
    """For a simulated store by itself, which is refused to clients of the real machine."""


class SimulatedDriver(Driver):
    """The simulator's store without faults, on this loop; each handle belongs to a node of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"simulated:{name}")
        self._name = name
        self._server: SimulatedMetadata | None = None

    async def open(self) -> MetadataStore:
        if self._server is None:
            timing = MetadataTiming(request_s=(0.0, 0.001), answer_s=(0.0, 0.001), watch_s=(0.0, 0.002))
            self._server = SimulatedMetadata(streams(), CountedNotes(), self._name, timing=timing)
        node = f"node-{len(self._stores)}"
        self._stores.append(self._server.connect(node, SystemEnvironment()))
        return self._stores[-1]

    async def reopen(self) -> MetadataStore:
        return await open_store(self.uri, _NoSimulation())


class ZooKeeperDriver(Driver):
    """Sessions that a busy machine does not end, and little patience with a registration that is alive."""

    async def open(self) -> MetadataStore:
        store = await super().open()
        assert isinstance(store, ZooKeeperStore)
        store._session.timeout_s = 0.5
        return store


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test whose first argument is the driver; handles it opened are closed after it."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        async def main() -> None:
            try:
                await test(**arguments)
            finally:
                if "driver" in arguments:
                    await arguments["driver"].close()

        asyncio.run(main())

    return run


async def eventually(condition: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    """Return once the condition holds; fail when it does not within the deadline."""
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110 -- what is waited for is outside this loop
            await asyncio.sleep(0.002)


async def eventually_async(condition: Callable[[], Awaitable[bool]], wait_s: float = WAIT_S) -> None:
    async with asyncio.timeout(wait_s):
        while not await condition():  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.002)


def new_metadata(*, c_token: int | None = None, custom: tuple[tuple[str, bytes], ...] = ()) -> LedgerMetadata:
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=3, write=3, ack=2),
        fragments=(Fragment(EntryId(0), (B1, B2, B3)),),
        c_token=c_token,
        custom=custom,
    )


def bookie(bookie_id: BookieId = B1, *, port: int = 3181, read_only: bool = False) -> BookieInfo:
    return BookieInfo(bookie_id=bookie_id, host="127.0.0.1", port=port, read_only=read_only)
