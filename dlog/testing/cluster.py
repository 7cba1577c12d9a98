"""A whole cluster on one simulated machine: bookies, a metadata store, and the processes of your program.

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await client.open_writer("orders") as writer:
            await writer.append(b"payload")
            cluster.kill_bookie(0)
            await writer.append(b"written with two bookies")

    simulate(main, seed=7)

What runs is the production code of client, log and bookie. The same seed does the same, step by step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bookie_server.storage.config import StorageConfig
from dlog.client import DEFAULT_NAMESPACE, LogClient
from dlog.config import LogConfig
from dlog.core import metadata_keys
from dlog.testing.bookies import SimulatedBookie, small_storage
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.environment import SimulatedEnvironment
from dlog.testing.kernel.loop import Limits, SimulatedLoop
from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.trace import Trace
from dlog.testing.metadata.changes import told_change
from dlog.testing.metadata.server import SimulatedMetadata
from dlog.testing.metadata.timing import MetadataTiming
from dlog.testing.network.network import Network
from ledger.metadata.store import MetadataStore
from ledger.metadata.transactions.key_value import Node as StoredValue
from ledger.metadata.transactions.ledgers import LAST_ID_KEY

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What is simulated. The defaults are a healthy small cluster."""

    bookies: int = 3
    storage: StorageConfig = field(default_factory=small_storage)
    disk: DiskTiming = field(default_factory=DiskTiming)
    metadata: MetadataTiming = field(
        default_factory=lambda: MetadataTiming(request_timeout_s=2.0, session_timeout_s=4.0)
    )
    gc_interval_s: float = 5.0
    gc_grace_s: float = 2.0
    """How long a ledger must be gone from the metadata before bookies forget its entries."""


class SimulatedCluster:
    """The cluster, and the handles to hurt it. Bookies are called by number, other processes by name."""

    def __init__(self, loop: SimulatedLoop, config: ClusterConfig | None = None) -> None:
        self.loop = loop
        self.config = config or ClusterConfig()
        self.metadata = SimulatedMetadata(
            loop.seeds.stream, loop.trace, f"seed-{loop.seeds.seed}", timing=self.config.metadata
        )
        self.bookies = [self._new_bookie(number) for number in range(self.config.bookies)]
        if loop.trace.telling:
            self.metadata.on_change = self._tell_change

    def _new_bookie(self, number: int) -> SimulatedBookie:
        return SimulatedBookie(
            self.loop,
            self.metadata,
            f"bookie-{number}",
            storage=self.config.storage,
            timing=self.config.disk,
            gc_interval_s=self.config.gc_interval_s,
            gc_grace_s=self.config.gc_grace_s,
        )

    def _tell_change(self, node: str, key: str, now: StoredValue | None) -> None:
        if key != LAST_ID_KEY:  # the ledger that got the id tells more
            self.loop.trace.tell("-> metadata", node, told_change(key, now, self.network.name_of))

    # ---- facts

    @property
    def network(self) -> Network:
        """All its faults are methods: cut, clog, reset, isolate … between nodes called by name."""
        return self.loop.network

    @property
    def trace(self) -> Trace:
        return self.loop.trace

    @property
    def uri(self) -> str:
        """Address of the metadata store, for programs that call `dlog.client.connect` themselves."""
        return self.metadata.uri

    def environment(self) -> SimulatedEnvironment:
        """Clocks, chance and identity of the process that asks; for `dlog.client.connect`."""
        return SimulatedEnvironment(self.loop.seeds, self.loop, self.loop.node)

    # ---- start

    async def start(self) -> None:
        """Initialise the store and start every bookie; returns when all serve."""
        store = self.store()
        await store.init_cluster()
        await store.close()
        for bookie in self.bookies:
            bookie.start()
        for bookie in self.bookies:
            await bookie.wait_until_serving()

    # ---- programs

    def run(self, name: str, program: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Run `program()` as a process of its own on a host called `name`, so that it can be hurt by itself.

        If a process of that name was killed, this is its next incarnation, on the same host. The task of one that
        is killed is never done.
        """
        return self.loop.create_task_on(self.loop.boot(name), program(), name=f"{name} main")

    async def client(
        self,
        *,
        config: LogConfig | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        root: str = metadata_keys.DEFAULT_ROOT,
    ) -> LogClient:
        """A log client of the process that asks. Closing it closes all it opened."""
        client = LogClient(self.store(), namespace, config=config, environment=self.environment(), root=root)
        try:
            await client.start()
        except BaseException:
            await client.close()
            raise
        return client

    def store(self) -> MetadataStore:
        """A session of the process that asks with the metadata store."""
        return self.metadata.connect(self.loop.node.name, self.environment())

    def process(self, name: str) -> Node:
        """The latest process called so."""
        return self.loop.node_named(name)

    # ---- faults of processes

    def start_bookie(self, number: int) -> None:
        """Start it after it has died."""
        self.bookies[number].start()

    def kill_bookie(self, number: int) -> None:
        """kill -9."""
        self.bookies[number].kill()

    def power_cut_bookie(self, number: int) -> None:
        """The host is off, and what was not synced is lost in part or in whole."""
        self.bookies[number].power_cut()

    async def restart_bookie(self, number: int) -> None:
        """Kill it if it runs, start it, return when it serves."""
        self.bookies[number].kill()
        self.bookies[number].start()
        await self.bookies[number].wait_until_serving()

    def kill(self, name: str) -> None:
        """kill -9 a process started by `run`."""
        self.loop.kill(self.process(name))

    def pause(self, name: str) -> None:
        """SIGSTOP a bookie (`bookie-0`) or any other process."""
        self.loop.pause(self.process(name))

    def resume(self, name: str) -> None:
        self.loop.resume(self.process(name))

    # ---- the end of all faults

    def heal(self) -> None:
        """Everything that can be mended is: links, disks, the store; who sleeps wakes, bookies that died start."""
        self.network.heal_all()
        self.metadata.faults.rates.clear()
        for name in self.metadata.cut_off:
            self.metadata.heal(name)
        for bookie in self.bookies:
            bookie.disk.faults.rates.clear()
            bookie.disk.faults.disarm()
            bookie.disk.crash_at_effect(None)
            bookie.disk.capacity_bytes = None
            bookie.disk.opens_files = True
        for node in self.loop.nodes():
            self.loop.resume(node)
        for bookie in self.bookies:
            if not bookie.running:
                bookie.start()

    async def stop(self) -> None:
        """Stop every bookie in good order."""
        await asyncio.gather(*(bookie.stop() for bookie in self.bookies))


def simulate(
    main: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    seed: int = 0,
    config: ClusterConfig | None = None,
    limits: Limits | None = None,
    timeline: int = 0,
) -> T:
    """Run `main` with a started cluster, to its end; what it returns or raises comes out here.

    An exception brings the last `timeline` lines of what happened as a note. DeadlockError if nothing can ever
    happen any more, UncaughtProblemsError if an exception was lost on the way.
    """
    simulation = Simulation(seed, config=config, limits=limits, telling=timeline > 0)
    try:
        return simulation.run(main)
    except BaseException as error:
        if timeline:
            error.add_note(simulation.cluster.trace.timeline(timeline))
        raise
    finally:
        simulation.close()


class Simulation:
    """One cluster for one run of a program."""

    def __init__(
        self,
        seed: int,
        *,
        config: ClusterConfig | None = None,
        limits: Limits | None = None,
        telling: bool = False,
    ) -> None:
        self._loop = SimulatedLoop(Seeds(seed), limits)
        self._loop.trace.telling = telling
        self.cluster = SimulatedCluster(self._loop, config)

    def run(self, main: Callable[[SimulatedCluster], Awaitable[T]]) -> T:
        """Start the cluster, then run this to its end."""

        async def run() -> T:
            await self.cluster.start()
            return await main(self.cluster)

        with logging_into(self._loop):
            return self._loop.run(run())

    def close(self) -> None:
        self._loop.close()


@contextmanager
def logging_into(loop: SimulatedLoop) -> Iterator[None]:
    """Inside, what our packages log goes into the trace's timeline, if details are wanted there, else nowhere."""
    handler = _TraceHandler(loop) if loop.trace.detailed else logging.NullHandler()
    loggers = [logging.getLogger(name) for name in ("dlog", "ledger", "bookie_server")]
    before = [(each.propagate, each.level) for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
        each.setLevel(logging.INFO if loop.trace.detailed else logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, (propagate, level) in zip(loggers, before, strict=True):
            each.removeHandler(handler)
            each.propagate = propagate
            each.setLevel(level)


class _TraceHandler(logging.Handler):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.trace.detail(f"log.{record.levelname.lower()}", self._loop.node.label, record.getMessage())
