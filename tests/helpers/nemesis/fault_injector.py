"""What the nemesis does to the processes, at times and in an order that the seed decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

from dlog.testing.relay import Direction
from tests.helpers.nemesis.chaos import Action, Chaos
from tests.helpers.nemesis.client_process import ClientArguments
from tests.helpers.nemesis.cluster import NemesisCluster
from tests.helpers.nemesis.network_faults import NetworkFaults
from tests.helpers.processes.python import Child, start_python

_READERS_MAX = 3


class Faults:
    """One run's chaos: processes that are up, paused or dead, and the next thing to happen to them."""

    def __init__(
        self,
        cluster: NemesisCluster,
        directory: Path,
        random: Random,
        options: tuple[str, ...] = (),
        only: tuple[str, ...] = (),
    ) -> None:
        """`only`: names of methods; none means all faults."""
        self._cluster = cluster
        self._directory = directory
        self._random = random
        self._options = options
        self._only = only
        self._started = 0
        self.chaos = Chaos(random)
        self.histories: list[Path] = []
        self.writers: list[Child] = []
        self.readers: dict[str, Child] = {}
        """By name."""
        self._sources: dict[Child, str] = {}
        self._dead: set[int] = set()
        self._stopped: set[int] = set()
        self._network = NetworkFaults(self.chaos, cluster.relays, lambda: list(self._live_sources()))

    async def start_writer(self) -> None:
        _, child = await self._start("writer")
        self.writers.append(child)

    async def start_reader(self, *options: str) -> None:
        name, child = await self._start("reader", *options)
        self.readers[name] = child

    async def _start(self, kind: str, *options: str) -> tuple[str, Child]:
        self._started += 1
        name = f"{kind[0]}{self._started}"
        path = self._directory / f"{name}.history"
        path.touch()
        self.histories.append(path)
        source = f"127.0.{3 + self._started // 250}.{1 + self._started % 250}"
        uri = await self._cluster.store.uri_for(name)
        seed = str(self._random.randrange(2**32))
        arguments = ClientArguments(uri, path, name, seed, source, (*self._options, *options))
        self.chaos.note(f"start {name} at {source}")
        child = await start_python(arguments.command_line(kind))
        self._sources[child] = source
        return name, child

    def _live_sources(self) -> Iterator[str]:
        return (source for child, source in self._sources.items() if child.running)

    async def step(self) -> None:
        """Do one thing."""
        actions: list[tuple[int, Action]] = [
            (4, self._kill_bookie),
            (4, self._stop_bookie),
            (3, self._stop_writer),
            (3, self._kill_writer),
            (2, self._kill_several_bookies),
            (2, self._new_writer),
            (1, self._new_reader),
            (4, self._ambush),
            (3, self._depose_unheard),
            *self._network.actions(),
            *self._cluster.store.actions(self.chaos),
        ]
        if self._only:
            actions = [pair for pair in actions if getattr(pair[1], "__name__", "") in self._only]
        action = self._random.choices([act for _, act in actions], [weight for weight, _ in actions])[0]
        await action()

    async def heal(self) -> None:
        """Everything runs again, and is reachable."""
        await self.chaos.settled()
        for number in list(self._dead):
            await self._restart(number)
        self._network.heal()
        await self._cluster.store.heal()

    async def end_writers(self) -> None:
        """All writers settle what they have accepted, and end."""
        codes = await asyncio.gather(*(writer.stop(60.0) for writer in self.writers))
        assert not any(codes), [
            (code, writer.last_lines) for code, writer in zip(codes, self.writers, strict=True)
        ]

    async def end_readers(self) -> None:
        codes = await asyncio.gather(*(reader.stop() for reader in self.readers.values()))
        assert not any(codes), [reader.last_lines for reader in self.readers.values()]

    async def end(self) -> None:
        for child in (*self.writers, *self.readers.values()):
            child.kill()
        await asyncio.gather(*(child.stop() for child in (*self.writers, *self.readers.values())))

    # ---- bookies

    async def _kill_bookie(self) -> None:
        numbers = self._usable_bookies()
        if numbers:
            await self._kill(self._random.choice(numbers))

    async def _kill_several_bookies(self) -> None:
        """More than the ensemble can lose: nothing may be lost, only time."""
        for number in self._usable_bookies():
            if self._random.random() < 0.7:
                await self._kill(number)

    async def _kill(self, number: int) -> None:
        self.chaos.fault("kill bookie", str(number))
        self._dead.add(number)
        self._cluster.bookies[number].kill()
        await self._cluster.bookies[number].stop()
        self.chaos.later(self._random.uniform(0.0, 3.0), lambda: self._restart(number))

    async def _restart(self, number: int) -> None:
        if number in self._dead:
            self._dead.discard(number)
            self._stopped.add(number)  # no fault before it is up
            await self._cluster.restart(number)
            self._stopped.discard(number)
            self.chaos.note(f"bookie {number} is back")

    async def _stop_bookie(self) -> None:
        numbers = self._usable_bookies()
        if not numbers:
            return
        self._pause_bookie(self._random.choice(numbers), self._random.uniform(0.1, 3.0))

    def _pause_bookie(self, number: int, for_s: float) -> None:
        self.chaos.fault("pause bookie", str(number))
        self._stopped.add(number)
        child = self._cluster.bookies[number]
        child.pause()

        async def resume() -> None:
            self.chaos.note(f"continue bookie {number}")
            child.resume()
            self._stopped.discard(number)

        self.chaos.later(for_s, resume)

    async def _ambush(self) -> None:
        """A takeover that meets a bookie without the tail, and another that does not respond.

        One is paused and misses the newest entries, and dies with what waited in its socket; the writer dies; the first
        is back and denies them; a second one is paused. Only the third knows that they were acknowledged.
        """
        usable = self._usable_bookies()
        if len(usable) < 2:
            return
        denier, silent = self._random.sample(usable, 2)
        self.chaos.fault("ambush", f"bookie {denier} misses the tail, bookie {silent} will not respond")
        self._cluster.bookies[denier].pause()
        await asyncio.sleep(self._random.uniform(0.02, 0.4))
        for writer in self._alive_writers():
            if self._random.random() < 0.8:
                await self._end_writer(writer)
        await self._kill(denier)
        await self._restart(denier)
        if silent in self._usable_bookies():
            self._pause_bookie(silent, self._random.uniform(0.5, 2.0))
        await self.start_writer()

    def _usable_bookies(self) -> list[int]:
        return [
            number
            for number in range(len(self._cluster.bookies))
            if number not in self._dead and number not in self._stopped
        ]

    # ---- writers

    async def _new_writer(self) -> None:
        if len(self._alive_writers()) < 3:
            await self.start_writer()

    async def _new_reader(self) -> None:
        if len(self.readers) < _READERS_MAX:
            await self.start_reader()

    async def _kill_writer(self) -> None:
        alive = self._alive_writers()
        if alive:
            await self._end_writer(self._random.choice(alive))
        if not self._alive_writers():
            await self.start_writer()

    async def _end_writer(self, victim: Child) -> None:
        self.chaos.fault("kill writer", str(victim.pid))
        victim.kill()
        await victim.stop()
        self.writers.remove(victim)

    async def _stop_writer(self) -> None:
        """It is paused with appends in flight and continues deposed, or not."""
        alive = self._alive_writers()
        if not alive:
            return
        victim = self._random.choice(alive)
        self.chaos.fault("pause writer", str(victim.pid))
        victim.pause()

        async def resume() -> None:
            if victim.running:
                self.chaos.note(f"continue writer {victim.pid}")
                victim.resume()

        self.chaos.later(self._random.uniform(0.2, 4.0), resume)
        if self._random.random() < 0.5:
            await self.start_writer()

    async def _depose_unheard(self) -> None:
        """A writer gets no responses and is deposed: appends that bookies stored end indeterminate, to be resolved."""
        alive = self._alive_writers()
        if not alive:
            await self.start_writer()
            return
        victim = self._random.choice(alive)
        source = self._sources[victim]
        self.chaos.fault("depose unheard writer", source)
        for relay in self._cluster.relays:
            relay.stall(source, frozenset({Direction.RESPONSES}))

        async def heal() -> None:
            self.chaos.note(f"{source} is heard again")
            for relay in self._cluster.relays:
                relay.reset(source)
                relay.heal(source)

        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        await self.start_writer()
        self.chaos.later(self._random.uniform(0.2, 2.0), heal)

    def _alive_writers(self) -> list[Child]:
        return [writer for writer in self.writers if writer.running]
