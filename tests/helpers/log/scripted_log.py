"""The log client over bookies and a metadata store that do what a test tells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from dlog.client import LogClient
from dlog.config import LogConfig
from ledger.config import LedgerClientConfig
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError
from tests.helpers.ledger.scripted_bookies import Cluster, ScriptedBookie, scripted_cluster

QUICK = LogConfig(
    ledger=LedgerClientConfig(add_timeout_s=1.0, quorum_timeout_s=1.0, replace_backoff_s=0.05),
    candidate_wait_s=0.05,
    late_success_s=0.5,
    store_probe_s=0.1,
    deletion_grace_s=0.0,
)

_REQUESTS = frozenset(
    {
        "read_record",
        "write_record",
        "create_record",
        "read_ledger",
        "write_ledger",
        "create_new_ledger",
        "remove_ledger",
    }
)


class OwnStore:
    """One client's view of the store: it can be away, or never tell of a change, for this client alone."""

    def __init__(self, inner: Any, *, blind: bool) -> None:
        self._inner = inner
        self._blind = blind
        self.away = False
        self.away_for: set[str] = set()
        """Requests that fail although the store is there."""
        self.read_record_s = 0.0
        """How long each answer to this request takes."""
        self.held: dict[str, asyncio.Event] = {}
        """Requests that are carried out only after the event."""
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.before_answer: Callable[[str], None] = lambda name: None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _REQUESTS:
            return found

        async def ask(*args: Any, **options: Any) -> Any:
            self.asked.append(name)
            if self.away or name in self.away_for:
                raise MetadataUnavailableError("the store is away")
            if name in self.held:
                await self.held[name].wait()
            if name == "read_record" and self.read_record_s:
                await asyncio.sleep(self.read_record_s)
            try:
                answer = await found(*args, **options)
            finally:
                self.answered.append(name)
            self.before_answer(name)
            return answer

        return ask

    def watch_record(self, key: str, watch: Callable[[], None], *, urgent: bool = False) -> Any:
        return (lambda: None) if self._blind else self._inner.watch_record(key, watch, urgent=urgent)

    async def close(self) -> None:
        """The cluster of the test closes it."""


class LateEnvironment(SystemEnvironment):
    """A machine that can sleep: `asleep_s` passes on its boot clock and on no other."""

    asleep_s = 0.0

    def boot_s(self) -> float:
        return super().boot_s() + self.asleep_s


class ScriptedLog:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def bookies(self) -> list[ScriptedBookie]:
        return self.cluster.bookies

    @asynccontextmanager
    async def client(self, *, blind: bool = False, **settings: Any) -> AsyncIterator[LogClient]:
        """A client of its own; `client_store(client)` is its store. `blind`: no watch on records ever fires."""
        store: Any = OwnStore(self.cluster.store, blind=blind)
        client = LogClient(store, config=replace(QUICK, **settings), environment=LateEnvironment())
        await client.start()
        try:
            yield client
        finally:
            store.away = False
            for writer in list(client.writers):
                writer.abort()
            await client.close()


def store_of(client: LogClient) -> OwnStore:
    store: Any = client.ledgers.store
    assert isinstance(store, OwnStore)
    return store


def environment_of(client: LogClient) -> LateEnvironment:
    environment = client.ledgers.environment
    assert isinstance(environment, LateEnvironment)
    return environment


@asynccontextmanager
async def scripted_log(bookies: int = 3) -> AsyncIterator[ScriptedLog]:
    async with scripted_cluster(bookies) as cluster:
        yield ScriptedLog(cluster)


async def payloads(client: LogClient, log: str) -> list[bytes | None]:
    async with client.reader(log, until="latest") as reader:
        return [message.payload async for message in reader]


async def messages_before(client: LogClient, log: str) -> list[int | None]:
    """Of each entry, as it says itself."""
    async with client.reader(log, until="latest") as reader:
        return [batch.messages_before async for batch in reader.batches()]
