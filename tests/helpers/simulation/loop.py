"""Runs on a simulated loop, and two small servers for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import Any

from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.loop import SimulatedLoop
from dlog.testing.kernel.seeds import Seeds


@contextmanager
def simulation(seed: int = 1, limits: Limits | None = None):
    loop = SimulatedLoop(Seeds(seed), limits)
    try:
        yield loop
    finally:
        loop.close()


def simulate(main: Callable[[SimulatedLoop], Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    with simulation(seed) as loop:
        return loop.run(main(loop))


class Recorder(asyncio.Protocol):
    """Remembers what its transport told it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = b""
        self.chunks = 0
        self.error: Exception | None = None
        self.transport: Any = None
        self.gone = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        assert isinstance(data, bytes) and data
        self.data += data
        self.chunks += 1
        self.events.append("data")

    def eof_received(self):
        self.events.append("eof")

    def connection_lost(self, exc):
        self.events.append("lost")
        self.error = exc
        self.gone.set()

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")


class Echo(Recorder):
    def data_received(self, data):
        super().data_received(data)
        self.transport.write(data)


class BufferedRecorder(asyncio.BufferedProtocol):
    """As Recorder, reading into a buffer of its own."""

    def __init__(self, size: int = 64) -> None:
        self.buffer = bytearray(size)
        self.data = b""
        self.gone = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.data += bytes(self.buffer[:nbytes])

    def connection_lost(self, exc):
        self.gone.set()


async def pair(
    loop: SimulatedLoop, server: Callable[[], Any] = Recorder, client: Callable[[], Any] = Recorder
):
    """A connection from node "client" to node "server": both nodes and both protocols."""
    there, here = loop.boot("server"), loop.boot("client")
    accepted = loop.create_future()

    def accept():
        protocol = server()
        loop.call_later(
            0.001, lambda: accepted.done() or accepted.set_result(protocol)
        )  # after its connection_made
        return protocol

    async def listen():
        await loop.create_server(accept, "0.0.0.0", 80)

    async def connect():
        _, protocol = await loop.create_connection(client, there.address, 80)
        return protocol

    await loop.create_task_on(there, listen())
    protocol = await loop.create_task_on(here, connect())
    return there, here, await accepted, protocol
