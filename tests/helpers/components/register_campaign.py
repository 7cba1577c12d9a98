"""Processes that compete for records of a metadata store while faults happen; afterwards C16 is checked."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from dlog.testing.checks.registers import c16_registers_are_linearizable
from dlog.testing.metadata.history import CallOutcome, RegisterCall, RegisterHistory
from ledger.errors import NotFoundError
from ledger.metadata.drivers import open_store
from tests.helpers.components.register_client import read_registers
from tests.helpers.processes.python import Child, start_python

CLIENTS = 3
_LOCK_WAIT_S = 0.3


class RegisterCampaign:
    """The processes, and the histories that they leave behind."""

    def __init__(self, directory: Path, random: Random, uri_for: Callable[[str], Awaitable[str]]) -> None:
        self.random = random
        self.clients: list[Child] = []
        self.faults: Counter[str] = Counter()
        self._directory = directory
        self._uri_for = uri_for
        self._started = 0
        self._open_pipes: set[int] = set()

    async def start_client(self) -> None:
        self._started += 1
        name = f"c{self._started}"
        path = self._directory / f"{name}.pipe"
        os.mkfifo(path)
        self._collect(path)
        uri, seed = await self._uri_for(name), str(self.random.randrange(2**32))
        module = "tests.helpers.components.register_client"
        self.clients.append(await start_python(["-m", module, uri, str(path), name, seed, str(_LOCK_WAIT_S)]))

    def _collect(self, pipe: Path) -> None:
        """A client writes its history into a pipe, which no limit or full disk concerns and no kill -9 empties."""
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writing = os.open(pipe.with_suffix(".registers"), os.O_WRONLY | os.O_CREAT, 0o600)
        loop = asyncio.get_running_loop()

        def copy() -> None:
            if data := os.read(reading, 1 << 16):
                os.write(writing, data)
                return
            loop.remove_reader(reading)
            os.close(reading)
            os.close(writing)
            self._open_pipes.discard(reading)

        self._open_pipes.add(reading)
        loop.add_reader(reading, copy)

    async def kill_client(self) -> None:
        """kill -9, in the middle of whatever it does; another one takes its place."""
        victim = self.random.choice(self.clients)
        victim.kill()
        await victim.stop()
        self.clients.remove(victim)
        await self.start_client()

    async def pause_client(self) -> None:
        """With what it holds at that moment, a lock for example."""
        victim = self.random.choice(self.clients)
        victim.pause()
        await asyncio.sleep(self.random.uniform(0.05, 0.8))
        victim.resume()

    async def run(self, seconds: float, faults: dict[str, Callable[[], Awaitable[None]]]) -> None:
        """Faults one after the other, until the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end or len(self.faults) < len(faults):
            await asyncio.sleep(self.random.uniform(0.02, 0.2))
            never = sorted(set(faults) - set(self.faults))
            name = never[0] if never else self.random.choice(sorted(faults))
            self.faults[name] += 1
            await faults[name]()

    async def end(self) -> None:
        """Each ends by itself when asked to."""
        codes = await asyncio.gather(*(client.stop() for client in self.clients))
        assert not any(codes), [client.last_lines for client in self.clients]

    async def kill_all(self) -> None:
        for client in self.clients:
            client.kill()
        await asyncio.gather(*(client.stop() for client in self.clients))

    async def history(self, uri: str) -> RegisterHistory:
        """What all clients did, and what is there at the end."""
        while self._open_pipes:  # noqa: ASYNC110 - the rest of what the kernel holds
            await asyncio.sleep(0.01)
        found = read_registers(sorted(self._directory.glob("*.registers")))
        now = max((call.returned or call.invoked for call in found.calls), default=0)
        store = await open_store(uri)
        try:
            for register in sorted({call.register for call in found.calls}):
                now += 2
                call = RegisterCall("last", register, "read", None, None, now, now + 1)
                try:
                    last = await store.read_record(register)
                    call.outcome, call.version, call.value = CallOutcome.DONE, last.version, last.value
                except NotFoundError:
                    call.outcome = CallOutcome.ABSENT
                found.calls.append(call)
        finally:
            await store.close()
        return found

    async def check(self, uri: str) -> None:
        """C16, and that the faults left room for work."""
        found = await self.history(uri)
        wrong = list(c16_registers_are_linearizable(found))
        assert not wrong, "\n".join(wrong[:5])
        outcomes = Counter(call.outcome.value for call in found.calls)
        print(f"{len(found.calls)} calls: {dict(outcomes)}; faults {dict(self.faults)}")
        assert outcomes["done"] > 30, outcomes  # on a busy machine; on a quiet one some hundreds
