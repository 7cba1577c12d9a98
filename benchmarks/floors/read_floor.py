"""What the machine allows a reader: bytes a second from one bare source, one piece ahead of the one counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from tests.helpers.processes.python import Child, start_python

PIECE_BYTES = 1024 * 1024
"""As much as our readers ask for at a time."""
_PIECES_AHEAD = 2


async def measure_read_floor(seconds: float) -> float:
    """Bytes a second that arrive in this process when nobody looks at them."""
    async with bare_source() as source:
        loop = asyncio.get_running_loop()
        transport, counter = await loop.create_connection(_Counter, source.host, source.port)
        started = loop.time()
        await asyncio.sleep(seconds)
        rate = counter.received / (loop.time() - started)
        transport.abort()
    return rate


@asynccontextmanager
async def bare_source() -> AsyncIterator[Child]:
    """A process that sends PIECE_BYTES for each byte that it receives."""
    source = await start_python(["-m", "benchmarks.floors.bare_source", "--piece-bytes", str(PIECE_BYTES)])
    try:
        yield source
    finally:
        await source.stop()


class _Counter(asyncio.Protocol):
    """Asks for the next piece whenever one is complete."""

    def __init__(self) -> None:
        self.received = 0
        self._asked = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport and not its type.
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        wanted = self.received // PIECE_BYTES + _PIECES_AHEAD
        if wanted > self._asked:
            self._transport.write(bytes(wanted - self._asked))
            self._asked = wanted
