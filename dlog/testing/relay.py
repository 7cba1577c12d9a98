"""Stands in front of one bookie's port, and may let nothing through.

Clients know the bookie by the relay's address, 127.0.0.1, while it listens on the same port of `BEHIND`, another
address of the loopback device (Linux has them all).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

FRONT, BEHIND = "127.0.0.1", "127.0.0.2"
_CHUNK_BYTES = 256 * 1024


class Relay:
    """Passes bytes on, in both directions, until `stall` or `cut`."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._passing = asyncio.Event()
        self._passing.set()
        self._cut = False
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def open(self) -> None:
        """Take connections, on a port that is free on both addresses."""
        while self._server is None:
            server = await asyncio.start_server(self._accept, FRONT, 0)
            port = int(server.sockets[0].getsockname()[1])
            if await _is_free(port):
                self.port, self._server = port, server
            else:
                server.close()

    def stall(self) -> None:
        """Let nothing through, without notifying the senders, as a partition does."""
        self._passing.clear()

    def cut(self) -> None:
        """Close every connection, and every new one immediately."""
        self._cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        """Let everything through: what waited, and new connections."""
        self._cut = False
        self._passing.set()

    async def close(self) -> None:
        self.cut()
        self.heal()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        self._writers[writer] = None
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            return  # an end has closed, or the relay: both ends are closed below
        finally:
            writer.transport.abort()
            del self._writers[writer], self._tasks[task]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passing.wait()
        if self._cut:
            return
        behind_reader, behind_writer = await asyncio.open_connection(BEHIND, self.port)
        self._writers[behind_writer] = None
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, behind_writer))
                both.create_task(self._pump(behind_reader, writer))
        except* OSError:
            pass  # one end has closed: the other is closed below
        finally:
            behind_writer.transport.abort()
            del self._writers[behind_writer]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._passing.wait()
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()


async def _is_free(port: int) -> bool:
    try:
        server = await asyncio.start_server(lambda reader, writer: None, BEHIND, port)
    except OSError:
        return False
    server.close()
    await server.wait_closed()
    return True
