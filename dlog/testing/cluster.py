"""A whole cluster on one simulated machine: bookies, a metadata store, and the processes of your program.

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            await writer.append(b"payload")
            cluster.kill_bookie(0)
            await writer.append(b"written with two bookies")

    simulate(main, seed=7)

It runs the production code of client, log and bookie. The same seed gives the same run, step by step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bookie_server.config import Limits as BookieLimits
from bookie_server.storage.config import StorageConfig
from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core import metadata_keys
from dlog.model import DEFAULT_NAMESPACE
from dlog.testing.bookies import SimulatedBookie, small_storage
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.errors import Problem
from dlog.testing.kernel.environment import SimulatedEnvironment
from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.trace import Trace
from dlog.testing.metadata.changes import describe_change
from dlog.testing.metadata.server import SimulatedMetadata
from dlog.testing.metadata.timing import MetadataTiming
from dlog.testing.network.network import Network
from ledger.arguments import require_fields, require_type
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs
from ledger.metadata.store import MetadataStore
from ledger.metadata.transactions.key_value import Node as StoredValue
from ledger.metadata.transactions.ledgers import LAST_ID_KEY

T = TypeVar("T")


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Size and timing of the simulated cluster. The defaults are a healthy small cluster. Times are virtual seconds.

    Raises:
        ConfigurationError: a value has the wrong type.
    """

    bookies: int = 3
    """Number of bookies at the start."""

    storage: StorageConfig = field(default_factory=small_storage)
    """Storage of each bookie: small, so that checkpoints and new files come often."""

    storage_of: Callable[[str], StorageConfig] | None = None
    """Storage of the bookie of this name, where bookies differ; None: `storage` for all."""

    disk: DiskTiming = field(default_factory=DiskTiming)
    """How long reads, writes and syncs of a bookie's disk take."""

    metadata: MetadataTiming = field(
        default_factory=lambda: MetadataTiming(request_timeout_s=2.0, session_timeout_s=4.0)
    )
    """Delays and timeouts of the metadata store."""

    gc_interval_s: float = 5.0
    """Pause between two garbage collections of a bookie."""

    gc_grace_s: float = 2.0
    """How long a ledger must be absent from metadata before bookies delete its entries."""

    racks: int = 0
    """Racks that the bookies are in, one after the other; 0: they publish no location."""

    scrub_interval_s: float = 0.0
    """From the beginning of one pass of a bookie's scrubber to that of the next; 0: bookies have none."""

    rebuild_interval_s: float = 0.0
    """From one rebuild of a bookie's index to the next; 0: none."""

    bookie_limits: BookieLimits = field(default_factory=BookieLimits)
    """What connections may hold in a bookie."""

    def __post_init__(self) -> None:
        require_fields(self)
        if self.bookies < 0:
            raise ConfigurationError(f"bookies of ClusterConfig must be 0 or more, got {self.bookies}")


class SimulatedCluster:
    """The cluster, and the faults to inject. Bookies are named by number from 0, other processes by name.

    A number that no bookie has, or a name that no process has, is a ConfigurationError.
    """

    def __init__(self, loop: SimulatedLoop, config: ClusterConfig | None = None) -> None:
        require_type("config", config, ClusterConfig, type(None))
        self.loop = loop
        self.config = config or ClusterConfig()
        self.metadata = SimulatedMetadata(
            loop.seeds.stream, loop.trace, f"seed-{loop.seeds.seed}", timing=self.config.metadata
        )
        self.bookies = [self._new_bookie(number) for number in range(self.config.bookies)]
        if loop.trace.with_events:
            self.metadata.on_change.append(self._log_change)

    def _new_bookie(self, number: int) -> SimulatedBookie:
        name, storage_of = f"bookie-{number}", self.config.storage_of
        storage = self.config.storage if storage_of is None else storage_of(name)
        return SimulatedBookie(
            self.loop,
            self.metadata,
            name,
            storage=storage,
            timing=self.config.disk,
            gc_interval_s=self.config.gc_interval_s,
            gc_grace_s=self.config.gc_grace_s,
            scrub_interval_s=self.config.scrub_interval_s,
            rebuild_interval_s=self.config.rebuild_interval_s,
            limits=self.config.bookie_limits,
            network_location=f"/rack-{number % self.config.racks}" if self.config.racks else None,
        )

    def _log_change(self, node: str, key: str, now: StoredValue | None) -> None:
        if key != LAST_ID_KEY:  # the ledger that got the id is noted
            self.loop.trace.event("-> metadata", node, describe_change(key, now, self.network.name_of))

    # ---- facts

    @property
    def network(self) -> Network:
        """The network; its methods are the faults of links (cut, clog, reset, isolate …) between nodes, by name."""
        return self.loop.network

    @property
    def trace(self) -> Trace:
        """What happened so far."""
        return self.loop.trace

    @property
    def uri(self) -> str:
        """Address of the metadata store, for programs that call `dlog.client.connect` themselves."""
        return self.metadata.uri

    def environment(self) -> SimulatedEnvironment:
        """Clocks, randomness and identity of the calling process; for `dlog.client.connect`."""
        return SimulatedEnvironment(self.loop.seeds, self.loop, self.loop.node)

    # ---- start

    async def start(self) -> None:
        """Initialise the metadata store and start every bookie; on return all serve."""
        store = self.store()
        await store.init_cluster()
        await store.close()
        for bookie in self.bookies:
            bookie.start()
        for bookie in self.bookies:
            await bookie.wait_until_serving()

    # ---- programs

    def run(self, name: str, program: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Run `program()` as a process of its own on a host called `name`, so that it can be killed or paused alone.

        If a process of that name was killed, this is its next incarnation, on the same host. The task of a killed
        process never completes.
        """
        return self.loop.create_task_on(self.loop.boot(name), program(), name=f"{name} main")

    async def client(
        self,
        *,
        config: LogConfig | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        root: str = metadata_keys.DEFAULT_ROOT,
    ) -> LogClient:
        """A started log client of the calling process. Closing it closes everything opened through it.

        Raises:
            InvalidNameError: `namespace` is not a valid name.
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        client = LogClient(self.store(), namespace, config=config, environment=self.environment(), root=root)
        try:
            await client.start()
        except BaseException:
            await client.close()
            raise
        return client

    def store(self) -> MetadataStore:
        """A session of the calling process with the metadata store."""
        return self.metadata.connect(self.loop.node.name, self.environment())

    def process(self, name: str) -> Node:
        """The latest process of this name.

        Raises:
            ConfigurationError: none had this name yet.
        """
        if name not in (names := [node.name for node in self.loop.nodes()]):
            raise ConfigurationError(f"there is no process {name!r}: there are {', '.join(names)}")
        return self.loop.node_named(name)

    # ---- membership

    def add_bookie(self) -> SimulatedBookie:
        """Start one more bookie, which registers. It is the last of `bookies`."""
        self.bookies.append(self._new_bookie(len(self.bookies)))
        self.bookies[-1].start()
        return self.bookies[-1]

    def bookie(self, name: str) -> SimulatedBookie:
        """The bookie of this name."""
        return next(bookie for bookie in self.bookies if bookie.name == name)

    def _numbered(self, number: int) -> SimulatedBookie:
        require_type("the number of a bookie", number, int)
        if not 0 <= number < len(self.bookies):
            raise ConfigurationError(
                f"there is no bookie {number}: there are {len(self.bookies)}, numbered from 0"
            )
        return self.bookies[number]

    # ---- faults of processes

    def start_bookie(self, number: int) -> None:
        """Start a bookie that has died."""
        self._numbered(number).start()

    def kill_bookie(self, number: int) -> None:
        """Kill the bookie (kill -9). What it has written stays on its disk."""
        self._numbered(number).kill()

    def power_cut_bookie(self, number: int) -> None:
        """Cut the power of the bookie's host: what was not synced is lost, in part or completely."""
        self._numbered(number).power_cut()

    async def restart_bookie(self, number: int) -> None:
        """Kill the bookie if it runs and start it; on return it serves."""
        bookie = self._numbered(number)
        bookie.kill()
        bookie.start()
        await bookie.wait_until_serving()

    def kill(self, name: str) -> None:
        """Kill a process started by `run` (kill -9)."""
        self.loop.kill(self.process(name))

    def pause(self, name: str) -> None:
        """Stop (SIGSTOP) a bookie (`bookie-0`) or any other process."""
        self.loop.pause(self.process(name))

    def resume(self, name: str) -> None:
        """Continue (SIGCONT) a paused process."""
        self.loop.resume(self.process(name))

    # ---- the end of all faults

    def heal(self) -> None:
        """End all faults: links, disks and the store work, paused processes continue, dead bookies start.

        What cannot be undone stays: lost bookies, damaged bytes, and the rates of clocks.
        """
        self.network.heal_all()
        self.metadata.faults.rates.clear()
        for name in self.metadata.cut_off:
            self.metadata.heal(name)
        for bookie in self.bookies:
            bookie.disk.faults.rates.clear()
            bookie.disk.faults.disarm()
            bookie.disk.crash_at_effect(None)
            bookie.disk.capacity_bytes = None
            bookie.disk.full_directories.clear()
            bookie.disk.opens_files = True
            bookie.disk.nearly_full = False
        for node in self.loop.nodes():
            self.loop.resume(node)
        for bookie in self.bookies:
            if not bookie.running and not bookie.lost:
                bookie.start()

    async def stop(self) -> None:
        """Stop every bookie cleanly."""
        await asyncio.gather(*(bookie.stop() for bookie in self.bookies))


def simulate(
    main: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    seed: int = 0,
    config: ClusterConfig | None = None,
    limits: Limits | None = None,
    timeline: int = 0,
) -> T:
    """Run `main` with a started cluster until it ends; return or raise what it does.

    An exception gets the last `timeline` lines of the trace as a note.

    Raises:
        DeadlockError: `main` has not ended and nothing can ever happen any more.
        LimitReachedError: more steps or virtual time than `limits` allow.
        UncaughtProblemsError: `main` ended well, but an exception was lost in a callback or a task, or an error was
            only logged.
    """
    simulation = Simulation(seed, config=config, limits=limits, with_events=timeline > 0)
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
        with_events: bool = False,
    ) -> None:
        self._loop = SimulatedLoop(Seeds(seed), limits)
        self._loop.trace.with_events = with_events
        self.cluster = SimulatedCluster(self._loop, config)

    def run(self, main: Callable[[SimulatedCluster], Awaitable[T]]) -> T:
        """Start the cluster and run `main` until it ends; return or raise what it does."""

        async def run() -> T:
            await self.cluster.start()
            return await main(self.cluster)

        with logging_into(self._loop):
            return self._loop.run(run())

    def close(self) -> None:
        """End every simulated process and the loop."""
        self._loop.close()


@contextmanager
def logging_into(loop: SimulatedLoop) -> Iterator[None]:
    """Inside, what our packages log goes into the trace's timeline, if details are wanted there.

    An error that is logged is a problem of the run, since production code logs one if it cannot raise it, unless the
    node's entry in `loop.explained` names the fault that is the reason.
    """
    handler = _TraceHandler(loop)
    loggers = [logging.getLogger(name) for name in ("dlog", "ledger", "bookie_server")]
    before = [(each.propagate, each.level) for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
        each.setLevel(logging.INFO if loop.trace.detailed else logging.ERROR)
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
        text, node = record.getMessage(), self._loop.node
        self._loop.trace.detail(f"log.{record.levelname.lower()}", node.label, text)
        if record.levelno < logging.ERROR:
            return
        is_explained = self._loop.explained.get(node.name)
        if is_explained is None or not is_explained(record):
            error = record.exc_info[1] if record.exc_info else None
            self._loop.problems.append(Problem(node.label, f"logged as {record.levelname}: {text}", error))
