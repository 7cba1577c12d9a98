"""What the machine allows a strict append that comes alone: two rounds through processes that do nothing else.

The entry goes to three bare servers, of which two must answer; then its explicit LAC goes to two. At a low rate each
process sleeps when its turn comes, so most of this is the time that the machine takes to wake five of them. At a high
rate one entry takes what became due during the two rounds before.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import cast

from benchmarks.floors.bare_server import ANSWER_BYTES
from benchmarks.floors.raw_floor import ACK_QUORUM, SERVERS, add_frame, start_server
from benchmarks.histogram import Summary
from benchmarks.load.ticks import Ticks
from tests.helpers.processes.python import Child

_FRAME = add_frame(100)
"""Of both rounds, though an explicit LAC is shorter: the size is no part of the question."""


async def measure_two_rounds(directory: Path, *, per_second: int, count: int) -> Summary:
    """How long two rounds take, in seconds from when the first was due (open loop, as `append_paced`)."""
    home = Path(tempfile.mkdtemp(prefix="paced-floor-", dir=directory))
    servers: list[Child] = []
    try:
        for number in range(SERVERS):
            servers.append(await start_server(home / f"server-{number}", len(_FRAME), "--lone"))
        return await _measure(servers, per_second, count)
    finally:
        await asyncio.gather(*(server.stop() for server in servers))
        shutil.rmtree(home)


async def _measure(servers: list[Child], per_second: int, count: int) -> Summary:
    loop = asyncio.get_running_loop()
    rounds = _Rounds()
    for server in servers:
        await loop.create_connection(rounds.new_connection, server.host, server.port)
    took: list[float] = []
    began = time.monotonic()
    with Ticks(began, per_second) as ticks:
        due = 0
        while len(took) < count:
            while due <= len(took):
                due = min(due + await ticks.next(), count)
            await rounds.ask(SERVERS)
            await rounds.ask(ACK_QUORUM)
            now = time.monotonic()
            took += [now - (began + number * ticks.interval_s) for number in range(len(took), due)]
    rounds.close()
    return Summary.of(took)


class _Rounds:
    """One request at a time to some of the servers, done when two of them owe no answer."""

    def __init__(self) -> None:
        self._connections: list[_Connection] = []
        self._asked: list[_Connection] = []
        self._done = asyncio.Event()

    def new_connection(self) -> _Connection:
        self._connections.append(_Connection(self))
        return self._connections[-1]

    async def ask(self, members: int) -> None:
        self._done.clear()
        self._asked = self._connections[:members]
        for connection in self._asked:
            connection.ask()
        await self._done.wait()

    def on_answer(self) -> None:
        if sum(each.owed_bytes == 0 for each in self._asked) >= ACK_QUORUM:
            self._done.set()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class _Connection(asyncio.Protocol):
    def __init__(self, rounds: _Rounds) -> None:
        self._rounds = rounds
        self._transport: asyncio.Transport | None = None
        self.owed_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport and not its type.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.owed_bytes -= len(data)
        self._rounds.on_answer()

    def ask(self) -> None:
        assert self._transport is not None
        self.owed_bytes += ANSWER_BYTES
        self._transport.write(_FRAME)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()
