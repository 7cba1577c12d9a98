"""One simulated bookie: a host, its disk, and the production server as a process on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from logging import LogRecord
from pathlib import Path

from bookie_server.config import BookieConfig, Limits
from bookie_server.errors import StorageError
from bookie_server.protocol.service import BookieService
from bookie_server.server import MISSING_FILE, MORE_MISSING_FILES, BookieServer
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing.checks.durable_entries import DurableEntries
from dlog.testing.checks.promises import BookiePromises
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.durable import JournalObserver
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.environment import SimulatedEnvironment
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.nodes import Node, context_of
from dlog.testing.metadata.server import SimulatedMetadata
from ledger.errors import LogStoreError
from ledger.model import BookieId

PORT = 3181
KIB = 1024
DATA = Path("/data")
MORE = tuple(DATA / f"more-{number}" for number in (1, 2))
"""Ledger directories next to the one with the index, in runs that have them."""


def small_storage(*, more_directories: int = 0, **changes: int | float | bool) -> StorageConfig:
    """Files, caches and pauses so small that each is turned over within seconds."""
    settings: dict[str, int | float | bool] = {
        "journal_segment_bytes": 64 * KIB,
        "journal_queue_bytes_max": 256 * KIB,
        "write_cache_bytes_max": 64 * KIB,
        "read_cache_bytes_max": 64 * KIB,
        "read_ahead_bytes": 16 * KIB,
        "entry_log_bytes_max": 64 * KIB,
        "block_bytes_max": 4 * KIB,
        "ledger_states_max": 16,
        "reserve_bytes": 128 * KIB,
        "disk_check_interval_s": 2.0,
        "checkpoint_interval_s": 3.0,
        "limbo_check_interval_s": 3.0,
        "minor_compaction_interval_s": 0.0,
        "major_compaction_interval_s": 0.0,
    }
    return StorageConfig(
        journal_directory=DATA / "journal",
        ledger_directory=DATA / "ledgers",
        more_ledger_directories=MORE[:more_directories],
        **(settings | changes),  # type: ignore[arg-type]  # StorageConfig itself checks what it is given
    )


class SimulatedBookie:
    """A bookie that can be killed and started again; its disk outlives its processes."""

    def __init__(
        self,
        loop: SimulatedLoop,
        metadata: SimulatedMetadata,
        name: str,
        *,
        storage: StorageConfig,
        timing: DiskTiming | None = None,
        gc_interval_s: float = 5.0,
        gc_grace_s: float = 2.0,
        scrub_interval_s: float = 0.0,
        rebuild_interval_s: float = 0.0,
        limits: Limits | None = None,
        network_location: str | None = None,
    ) -> None:
        self.name = name
        self.disk = SimulatedDisk(loop.seeds.stream, loop.trace, name, timing=timing)
        self.disk.on_crash(self._crashed)
        self.promises = BookiePromises(name, lambda ledger_id: metadata.ledger(ledger_id) is not None)
        """What its processes have answered, and which of it a later one did not keep."""
        if loop.trace.with_events:
            self.disk.watch_syncs(JournalObserver(loop.trace, name).synced)
        self.durable = DurableEntries()
        """What its processes have said to be durable."""
        self.lost = False
        """It never runs again: its host or its disk is lost."""
        self.decommissioned = False
        """It is lost, and nothing may depend on it."""
        self.damaged = False
        """Something durable on its disk was damaged. It may never serve again, and what it acknowledged may be lost."""
        self.may_refuse_to_start = False
        """Some of the damage is of a kind with which no start need succeed."""
        self.server: BookieServer | None = None
        """Of the process that runs; None before it serves."""
        self.on_end: Callable[[SimulatedBookie], None] = lambda _: None
        """Called when the process has ended by itself or at a planned effect, not when it is killed or stopped."""
        self._loop = loop
        self._metadata = metadata
        self._storage = storage
        self._gc = (gc_interval_s, gc_grace_s)
        self._scrub_interval_s = scrub_interval_s
        self.rebuild_interval_s = rebuild_interval_s
        """From one rebuild of the index to the next; 0: none from the next process on."""
        self._limits = limits or Limits()
        self.network_location = network_location
        """What its processes publish as its location."""
        self._node: Node | None = None
        self._serving = asyncio.Event()
        self._asked_to_stop = asyncio.Event()
        self._gone = asyncio.Event()
        loop.explained[name] = self._explains

    # ---- facts

    @property
    def running(self) -> bool:
        """Whether a process is there; it may be paused, or still replaying its journal."""
        return self._node is not None and self._node.alive

    @property
    def serving(self) -> bool:
        return self.running and self._serving.is_set()

    @property
    def bookie_id(self) -> BookieId:
        return BookieId(f"{self._loop.node_named(self.name).address}:{PORT}")

    @property
    def node(self) -> Node:
        """The process, or the last one that was."""
        assert self._node is not None, "the bookie was never started"
        return self._node

    @property
    def sound(self) -> bool:
        """Whether it must serve when all faults have ended, with everything that it has acknowledged."""
        return not self.lost and not self.damaged

    def refuses_adds_to(self, ledger_id: int) -> bool:
        """Whether a normal writer's add to this ledger would be refused now, for good.

        In limbo all are, and each ledger that must stay fenced is fenced again before limbo ends.
        """
        storage = None if self.server is None else self.server.storage
        try:
            state = None if storage is None else storage.ledger(ledger_id)
        except StorageError:
            return True  # its index is damaged there: it answers nothing but errors
        return state is not None and (state.fenced or state.deleted or state.limbo)

    def _explains(self, record: LogRecord) -> bool:
        """A start must name each file that the disk has lost. One that is missing without that fault is a problem."""
        lost = {path.name for path in self.disk.lost_files}  # with a directory: it is missed in another one
        if record.msg == MORE_MISSING_FILES:
            return bool(lost)
        if record.msg != MISSING_FILE or not isinstance(record.args, tuple):
            return False
        return any(name in str(record.args[0]) for name in lost)

    # ---- life and death

    def start(self) -> None:
        """Start a process; `wait_until_serving` returns when it answers."""
        if self.lost:
            raise ValueError(f"{self.name} is lost for good")
        if self.running:
            raise ValueError(f"{self.name} is already running: kill it first")
        self._asked_to_stop, self._gone = asyncio.Event(), asyncio.Event()
        self._node = node = self._loop.boot(self.name)
        task = self._loop.create_task_on(node, self._process(node), name=f"{self.name} process")
        # On the world's node, which alone outlives the process and sees how it ends.
        task.add_done_callback(partial(self._ended, node), context=context_of(self._loop.world))

    async def wait_until_serving(self) -> None:
        await self._serving.wait()

    async def checkpoint(self) -> None:
        """Have the index hold everything that a bookie which serves has accepted, if it can."""
        server = self.server
        if not self.serving or server is None or server.storage is None:
            return
        storage = server.storage

        async def checkpoint() -> None:
            with suppress(LogStoreError):  # a full disk holds it up, or the bookie ends
                await storage.checkpoint()

        await asyncio.wait(
            [self._loop.create_task_on(self.node, checkpoint(), name=f"{self.name} checkpoint")]
        )

    def lose_directory(self) -> None:
        """The disk of the last of its ledger directories without the index is lost; it goes on without it."""
        *left, lost = self._storage.more_ledger_directories
        self._storage = replace(
            self._storage,
            more_ledger_directories=tuple(left),
            lost_ledger_directories=(*self._storage.lost_ledger_directories, lost),
        )
        self.disk.lose_directory(lost)

    @property
    def more_directories(self) -> tuple[Path, ...]:
        """Its ledger directories without the index."""
        return self._storage.more_ledger_directories

    def kill(self) -> None:
        """kill -9: what was written stays, durable or not."""
        if self.running:
            self._loop.kill(self.node)
            self._after_death()
            self.disk.process_crash()

    def lose(self, *, host_too: bool) -> None:
        """Kill the process, or power its host off, for good."""
        if self.running:
            self._loop.kill(self.node, host_too=host_too)
            self._after_death()
            self.disk.process_crash()
        self.lost = True
        self._loop.trace.note("fault.lost_bookie", self.name, "its host is lost" if host_too else "")

    def throw_away(self) -> None:
        """It was decommissioned, and does not run."""
        self.lost = self.decommissioned = True
        self._loop.trace.note("decommissioned", self.name, "")

    def power_cut(self) -> None:
        """The host is off: of what was not synced any legal part is left, and peers hear nothing."""
        if self.running:
            self._loop.kill(self.node, host_too=True)
            self._after_death()
        self.disk.power_cut()

    async def stop(self) -> None:
        """As SIGTERM: withdraw, drain, checkpoint, exit."""
        if self.serving:
            self._asked_to_stop.set()
            await self._gone.wait()
        else:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        if self.running:
            self._loop.pause(self.node)

    def resume(self) -> None:
        if self.running:
            self._loop.resume(self.node)

    # ---- the process

    async def _process(self, node: Node) -> str:
        """What bookie_server.process does; returns why it ended."""
        environment = SimulatedEnvironment(self._loop.seeds, self._loop, node)
        store = self._metadata.connect(self.name, environment)
        server = _Server(self._config(node), store, self.disk, environment)
        server.on_storage = self.durable.hold
        server.on_service = self.promises.hold
        try:
            await server.start()
            self.server = server
            self._serving.set()
            self._loop.trace.note("bookie.serves", node.label, "")
            rebuilds = asyncio.get_running_loop().create_task(self._rebuild_index(server))
            await _first_of(server.failed, self._asked_to_stop)
            self._serving.clear()  # it may take a while until the store lets it withdraw
            rebuilds.cancel()
            await server.stop()
            return "stopped" if server.failure is None else f"failed: {server.failure}"
        except LogStoreError as error:
            return f"error: {error}"
        finally:
            await store.close()

    async def _rebuild_index(self, server: BookieServer) -> None:
        """As an operator who has its index made anew, again and again."""
        while self.rebuild_interval_s and server.storage is not None:
            await asyncio.sleep(self.rebuild_interval_s)
            with suppress(LogStoreError):  # the old index stays, or the bookie ends
                await server.storage.rebuild_index()
                self._loop.trace.note("bookie.rebuilt", self.node.label, "")

    def _config(self, node: Node) -> BookieConfig:
        interval_s, grace_s = self._gc
        return BookieConfig(
            metadata=self._metadata.uri,
            storage=self._storage,
            host=node.address,
            port=PORT,
            gc_interval_s=interval_s,
            gc_grace_s=grace_s,
            scrub_interval_s=self._scrub_interval_s,
            limits=self._limits,
            network_location=self.network_location,
        )

    def _ended(self, node: Node, task: asyncio.Task[str]) -> None:
        if node.alive:
            error = task.exception()
            self._loop.kill(node, because=task.result() if error is None else f"failed: {error!r}")
            self._after_death()
            self.disk.process_crash()
            if error is not None:
                raise error
            if not self._asked_to_stop.is_set():
                self.on_end(self)

    def _crashed(self) -> None:
        """A planned effect was reached, within the call that would have made it: the machine stops here."""
        self._loop.kill(self.node, host_too=True)
        self._after_death()
        self._loop.call_soon(self._cut, context=context_of(self._loop.world))

    def _cut(self) -> None:
        self.disk.power_cut()
        self.on_end(self)

    def _after_death(self) -> None:
        self._serving.clear()
        self._gone.set()
        self.server = None
        self.durable.release()


class _Server(BookieServer):
    """Shows its storage and its service before it listens."""

    on_storage: Callable[[LedgerStorage], None]
    on_service: Callable[[BookieService], None]

    async def _open_storage(self) -> LedgerStorage:
        storage = await super()._open_storage()
        self.on_storage(storage)
        return storage

    def _make_service(self, storage: LedgerStorage) -> BookieService:
        service = super()._make_service(storage)
        self.on_service(service)
        return service


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
