"""A cluster of real bookie processes whose processes and links can fail on demand, for tests.

    with RealCluster(directory) as cluster, dlog.connect(cluster.uri) as client:
        cluster.partition(0)

Methods block, return when the fault is in place, and may be called from any thread, so they serve asyncio and
blocking tests. Bookies are counted from 0; a number that none has, and a call while the cluster does not run, are a
ConfigurationError. The metadata store is a SQLite file, which no fault affects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from dlog.blocking.loop_thread import LoopThread
from dlog.local.embedded import AsyncStandalone
from dlog.local.supervisor import BookieFacts
from dlog.testing.relay import BEHIND, FRONT, Relay
from ledger.errors import ConfigurationError


class RealCluster:
    """Bookies that are not restarted automatically, each behind a relay that can cut or stall its links."""

    def __init__(self, directory: str | Path, bookies: int = 3) -> None:
        self._directory = Path(directory)
        self._count = bookies
        self._relays: list[Relay] = []
        self._thread: LoopThread | None = None
        self._paused: set[int] = set()
        self._cluster = AsyncStandalone(self._directory, bookies, restart=False, options=self._options)

    # ---- facts

    @property
    def uri(self) -> str:
        """The address to connect to."""
        return self._cluster.uri

    @property
    def bookies(self) -> list[BookieFacts]:
        """The bookies' state now."""
        return self._cluster.bookies

    @property
    def logs(self) -> Path:
        """The directory of the bookies' log output."""
        return self._directory / "log"

    # ---- processes

    def kill(self, number: int) -> None:
        """Kill the bookie (kill -9); it stays down until `restart` or `heal`."""
        self._paused.discard(number)
        self._running().run(self._cluster.kill, number)

    def restart(self, number: int) -> None:
        """Kill the bookie if it runs and start it; on return it serves.

        Raises:
            StandaloneError: it did not start.
        """
        self.kill(number)
        self._running().run(self._cluster.restart, number)

    def pause(self, number: int) -> None:
        """Stop the bookie (SIGSTOP): connections stay open, answers do not come."""
        self._running().call(lambda: self._cluster.pause(number))
        self._paused.add(number)

    def resume(self, number: int) -> None:
        """Continue (SIGCONT) a paused bookie."""
        self._running().call(lambda: self._cluster.resume(number))
        self._paused.discard(number)

    # ---- links between clients and a bookie

    def partition(self, *numbers: int) -> None:
        """Nothing passes to or from these bookies and neither side is notified; what is sent waits."""
        self._each(numbers, Relay.stall)

    def cut(self, *numbers: int) -> None:
        """Connections to these bookies are closed, and so is every new one."""
        self._each(numbers, Relay.cut)

    def reconnect(self, *numbers: int) -> None:
        """The links of these bookies work again."""
        self._each(numbers, Relay.heal)

    def heal(self) -> None:
        """End all faults: links work, paused bookies continue, dead ones serve again.

        Raises:
            StandaloneError: a bookie did not start.
        """
        self.reconnect(*range(self._count))
        for number in sorted(self._paused):
            self.resume(number)
        for number, facts in enumerate(self.bookies):
            if facts.process_id is None:
                self._running().run(self._cluster.restart, number)

    # ---- life

    def start(self) -> None:
        """Start all bookies; on return they serve.

        Raises:
            ConfigurationError: it is running, or the directory has bookies: those know the ports of other relays.
            StandaloneError: a bookie did not start.
        """
        if self._thread is not None:
            raise ConfigurationError("the cluster is running already")
        if any(self._directory.glob("bookie-*")):
            raise ConfigurationError(
                f"directory {self._directory} has bookies of another RealCluster: choose an empty one"
            )
        # Not uvloop: its child processes want the main thread's signal handler.
        self._thread = LoopThread("dlog cluster", new_loop=asyncio.new_event_loop)
        try:
            self._thread.run(self._start)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes, in whatever state they are; a second call, or one in a forked process, does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None and not thread.lost:
            try:
                thread.run(self._stop)
            finally:
                thread.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _start(self) -> None:
        self._relays = [Relay() for _ in range(self._count)]
        await asyncio.gather(*(relay.open() for relay in self._relays))
        await self._cluster.start()

    async def _stop(self) -> None:
        await self._cluster.stop()
        await asyncio.gather(*(relay.close() for relay in self._relays))

    def _options(self, number: int) -> list[str]:
        """Clients learn the relay's address: the same port on another host."""
        port = self._relays[number - 1].port
        return ["--host", BEHIND, "--advertised", FRONT, "--port", str(port)]

    def _each(self, numbers: Sequence[int], do: Callable[[Relay], None]) -> None:
        def work() -> None:
            for relay in relays:
                do(relay)

        running = self._running()
        for number in numbers:
            if not 0 <= number < self._count:
                raise ConfigurationError(
                    f"there is no bookie {number}: {self._count} are running, numbered from 0"
                )
        relays = [self._relays[number] for number in numbers]
        running.call(work)

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ConfigurationError("the cluster does not run: use it inside 'with RealCluster(...)'")
        return self._thread
