"""Metadata in memory: `memory:name`, shared by all handles of that name in this process.

For tests and simulation: the semantics of a real store, nothing durable, nothing outside this process.
Use one cluster from one thread at a time. A simulator passes its own MemoryCluster to `MemoryBackend`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ledger.environment import Environment
from ledger.errors import InvalidNameError, MetadataUnavailableError
from ledger.metadata.store import Unwatch, Watch
from ledger.metadata.transactions import sessions
from ledger.metadata.transactions.key_value import Job, Node, T
from ledger.metadata.transactions.store import KeyValueStore


@dataclass(eq=False, slots=True)
class _Watcher:
    """`context` is that of whoever watches: a change is made by somebody else."""

    loop: asyncio.AbstractEventLoop
    watch: Watch
    fire_on: str
    is_range: bool
    context: Context = field(default_factory=copy_context)

    def matches(self, key: str) -> bool:
        return key.startswith(self.fire_on) if self.is_range else key == self.fire_on


class MemoryCluster:
    """The shared state behind all handles of one name."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sorted_keys: list[str] = []
        self.sessions: set[str] = set()
        self.watchers: list[_Watcher] = []

    def run(self, job: Job[T]) -> T:
        """Execute a transaction. It raises before its first change or not at all, so there is no rollback."""
        tx = MemoryTransaction(self)
        result = job(tx)
        self._fire(tx.changed)
        return result

    def _fire(self, keys: Iterable[str]) -> None:
        for key in keys:
            for watcher in self.watchers:
                if watcher.matches(key) and not watcher.loop.is_closed():
                    watcher.loop.call_soon_threadsafe(watcher.watch, context=watcher.context)


class MemoryTransaction:
    def __init__(self, cluster: MemoryCluster) -> None:
        self._nodes = cluster.nodes
        self._sorted = cluster.sorted_keys
        self._sessions = cluster.sessions
        self.changed: dict[str, None] = {}
        """Keys, in the order in which they changed first: watches fire in it."""

    def get(self, key: str) -> Node | None:
        return self._nodes.get(key)

    def keys(self, prefix: str, *, start: str = "", limit: int) -> list[str]:
        first = bisect_left(self._sorted, max(prefix, start))
        found = self._sorted[first : first + limit]
        return [key for key in found if key.startswith(prefix)]

    def nodes(self, prefix: str) -> list[tuple[str, Node]]:
        return [(key, self._nodes[key]) for key in self.keys(prefix, limit=len(self._sorted))]

    def create(self, key: str, value: bytes, session: str | None = None) -> bool:
        if key in self._nodes:
            return False
        self._nodes[key] = Node(bytes(value), 0, session)
        insort(self._sorted, key)
        self.changed[key] = None
        return True

    def update(self, key: str, value: bytes, version: int) -> bool:
        node = self._nodes.get(key)
        if node is None or node.version != version:
            return False
        self._nodes[key] = Node(bytes(value), version + 1, node.session)
        self.changed[key] = None
        return True

    def remove(self, key: str, version: int | None = None) -> bool:
        node = self._nodes.get(key)
        if node is None or version not in (None, node.version):
            return False
        del self._nodes[key]
        del self._sorted[bisect_left(self._sorted, key)]
        self.changed[key] = None
        return True

    def remove_range(self, prefix: str) -> None:
        for key in self.keys(prefix, limit=len(self._sorted)):
            self.remove(key)

    def is_alive(self, session: str) -> bool:
        return session in self._sessions


class MemoryBackend:
    """One handle. `end_session` has the effect that the death of the process has on others."""

    def __init__(self, uri: str, cluster: MemoryCluster, environment: Environment) -> None:
        self._uri = uri
        self._cluster = cluster
        self._session = environment.new_uuid()
        self._watchers: list[_Watcher] = []
        self._open = True

    @property
    def uri(self) -> str:
        return self._uri

    async def read(self, job: Job[T]) -> T:
        # Yield once, as every real store does: callers must not rely on an answer within one step.
        await asyncio.sleep(0)
        self._check_open()
        return self._cluster.run(job)

    async def write(self, job: Job[T]) -> T:
        return await self.read(job)

    async def create(self, job: Job[T]) -> T:
        return await self.read(job)

    async def session(self) -> str:
        self._cluster.sessions.add(self._session)
        return self._session

    def watch_key(self, key: str, watch: Watch, *, urgent: bool) -> Unwatch:
        return self._add(_Watcher(asyncio.get_running_loop(), watch, key, is_range=False))

    def watch_range(self, prefix: str, watch: Watch) -> Unwatch:
        return self._add(_Watcher(asyncio.get_running_loop(), watch, prefix, is_range=True))

    async def close(self) -> None:
        for watcher in tuple(self._watchers):
            self._remove(watcher)
        if self._open:
            self._open = False
            self.end_session()

    def end_session(self) -> None:
        self._cluster.sessions.discard(self._session)
        self._cluster.run(lambda tx: sessions.end_session(tx, self._session))

    def _check_open(self) -> None:
        if not self._open:
            raise MetadataUnavailableError(f"the metadata store {self._uri} is closed on this handle")

    def _add(self, watcher: _Watcher) -> Unwatch:
        self._check_open()
        self._cluster.watchers.append(watcher)
        self._watchers.append(watcher)
        return lambda: self._remove(watcher)

    def _remove(self, watcher: _Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)
            self._cluster.watchers.remove(watcher)


_clusters: dict[str, MemoryCluster] = {}
"""Every name opened in this process; a name keeps its cluster until the process ends."""


async def open_memory(name: str, query: str, environment: Environment) -> KeyValueStore:
    """A handle on `memory:name`; the cluster still needs `init_cluster` the first time."""
    if not name:
        raise InvalidNameError("a memory address needs a name: memory:NAME")
    cluster = _clusters.setdefault(name, MemoryCluster())
    uri = f"memory:{name}?{query}" if query else f"memory:{name}"
    return KeyValueStore(MemoryBackend(uri, cluster, environment), environment)
