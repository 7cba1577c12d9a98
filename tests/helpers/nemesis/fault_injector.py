"""What the nemesis does to the processes, at times and in an order that the seed decides."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.helpers.processes.cluster import Cluster
from tests.helpers.processes.python import Child, start_python


class Faults:
    """One run's chaos: processes that are up, stopped or dead, and the next thing to happen to them."""

    def __init__(
        self, cluster: Cluster, directory: Path, chance: random.Random, options: tuple[str, ...]
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._chance = chance
        self._options = options
        self._started = 0
        self.histories: list[Path] = []
        self.writers: list[Child] = []
        self.readers: list[Child] = []
        self._dead: set[int] = set()
        self._stopped: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.told: list[str] = []
        """What was done, in words, for the report of a failure."""

    async def start_writer(self) -> None:
        self.writers.append(await self._start("writer"))

    async def start_reader(self) -> None:
        self.readers.append(await self._start("reader"))

    async def _start(self, kind: str) -> Child:
        self._started += 1
        name = f"{kind[0]}{self._started}"
        path = self._directory / f"{name}.history"
        path.touch()
        self.histories.append(path)
        module = f"tests.helpers.nemesis.{kind}_process"
        seed = str(self._chance.randrange(2**32))
        self._tell(f"start {name}")
        return await start_python(["-m", module, self._cluster.uri, str(path), name, seed, *self._options])

    async def step(self) -> None:
        """Do one thing."""
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self._kill_bookie),
            (4, self._stop_bookie),
            (3, self._stop_writer),
            (3, self._kill_writer),
            (2, self._kill_several_bookies),
            (2, self._new_writer),
            (2, self._lock_store),
            (4, self._ambush),
        ]
        action = self._chance.choices([act for _, act in actions], [weight for weight, _ in actions])[0]
        await action()

    async def heal(self) -> None:
        """Everything runs again, and whoever was asked to come back is back."""
        while self._tasks:
            await asyncio.gather(*self._tasks)
        for number in list(self._dead):
            await self._restart(number)

    async def end_writers(self) -> None:
        """All writers settle what they have accepted, and end."""
        codes = await asyncio.gather(*(writer.stop(60.0) for writer in self.writers))
        assert not any(code > 0 for code in codes), [writer.last_lines for writer in self.writers]

    async def end(self) -> None:
        for child in (*self.writers, *self.readers):
            child.kill()
        await asyncio.gather(*(child.stop() for child in (*self.writers, *self.readers)))

    # ---- bookies

    async def _kill_bookie(self) -> None:
        numbers = self._usable_bookies()
        if numbers:
            await self._kill(self._chance.choice(numbers))

    async def _kill_several_bookies(self) -> None:
        """More than the ensemble can bear: nothing may be lost, only time."""
        for number in self._usable_bookies():
            if self._chance.random() < 0.7:
                await self._kill(number)

    async def _kill(self, number: int) -> None:
        self._tell(f"kill bookie {number}")
        self._dead.add(number)
        self._cluster.bookies[number].kill()
        await self._cluster.bookies[number].stop()
        self._later(self._chance.uniform(0.0, 3.0), lambda: self._restart(number))

    async def _restart(self, number: int) -> None:
        if number in self._dead:
            self._dead.discard(number)
            self._stopped.add(number)  # not to be harmed before it is up
            await self._cluster.restart(number)
            self._stopped.discard(number)
            self._tell(f"bookie {number} is back")

    async def _stop_bookie(self) -> None:
        numbers = self._usable_bookies()
        if not numbers:
            return
        self._pause_bookie(self._chance.choice(numbers), self._chance.uniform(0.1, 3.0))

    def _pause_bookie(self, number: int, for_s: float) -> None:
        self._tell(f"stop bookie {number}")
        self._stopped.add(number)
        child = self._cluster.bookies[number]
        child.pause()

        async def resume() -> None:
            self._tell(f"continue bookie {number}")
            child.resume()
            self._stopped.discard(number)

        self._later(for_s, resume)

    async def _ambush(self) -> None:
        """A takeover that meets a bookie without the tail, and another that says nothing.

        One sleeps and misses the newest entries, and dies with what waited in its socket; the writer dies; the first
        is back and denies them; a second one sleeps. Only the third can tell that they were acknowledged.
        """
        usable = self._usable_bookies()
        if len(usable) < 2:
            return
        denier, silent = self._chance.sample(usable, 2)
        self._tell(f"ambush: bookie {denier} misses the tail, bookie {silent} will say nothing")
        self._cluster.bookies[denier].pause()
        await asyncio.sleep(self._chance.uniform(0.02, 0.4))
        for writer in self._alive_writers():
            if self._chance.random() < 0.8:
                await self._end_writer(writer)
        await self._kill(denier)
        await self._restart(denier)
        if silent in self._usable_bookies():
            self._pause_bookie(silent, self._chance.uniform(0.5, 2.0))
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

    async def _kill_writer(self) -> None:
        alive = self._alive_writers()
        if alive:
            await self._end_writer(self._chance.choice(alive))
        if not self._alive_writers():
            await self.start_writer()

    async def _end_writer(self, victim: Child) -> None:
        self._tell(f"kill writer {victim.pid}")
        victim.kill()
        await victim.stop()
        self.writers.remove(victim)

    async def _stop_writer(self) -> None:
        """It sleeps with appends in flight and wakes up deposed, or not."""
        alive = self._alive_writers()
        if not alive:
            return
        victim = self._chance.choice(alive)
        self._tell(f"stop writer {victim.pid}")
        victim.pause()

        async def resume() -> None:
            if victim.running:
                self._tell(f"continue writer {victim.pid}")
                victim.resume()

        self._later(self._chance.uniform(0.2, 4.0), resume)
        if self._chance.random() < 0.5:
            await self.start_writer()

    def _alive_writers(self) -> list[Child]:
        return [writer for writer in self.writers if writer.running]

    # ---- the metadata store

    async def _lock_store(self) -> None:
        """Somebody holds the file: nobody reads or writes metadata meanwhile."""
        connection = sqlite3.connect(self._cluster.directory / "meta.db", timeout=1.0, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            connection.close()
            return
        self._tell("lock the store")

        async def unlock() -> None:
            self._tell("unlock the store")
            connection.close()

        self._later(self._chance.uniform(0.1, 3.0), unlock)

    # ---- time

    def _later(self, delay_s: float, action: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await asyncio.sleep(delay_s)
            await action()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, text: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time():.2f} {text}")
