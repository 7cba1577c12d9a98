"""Stands in front of one server's port and passes bytes on, except where a fault of a link prevents it.

Clients know a bookie by the relay's address, 127.0.0.1, while it listens on the same port of `BEHIND`, another
address of the loopback device (Linux has them all). Any other server is behind an address of its own.

A fault concerns all clients, or the one with this source address.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

FRONT, BEHIND = "127.0.0.1", "127.0.0.2"
_CHUNK_BYTES = 256 * 1024


class Direction(Enum):
    """Of the bytes of a connection."""

    REQUESTS = auto()
    """From the client to the server."""
    RESPONSES = auto()


BOTH = frozenset(Direction)


@dataclass(slots=True)
class _Faults:
    """What is wrong with the links of one client, or of all."""

    stalled: frozenset[Direction] = frozenset()
    delay_s: float = 0.0
    is_cut: bool = False


class _Connection:
    """One accepted connection, and the one to the server once it is open."""

    def __init__(self, client: str, front: asyncio.StreamWriter) -> None:
        self.client = client
        self.writers = [front]

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Relay:
    """Passes bytes on, in both directions, until `stall`, `cut`, `reset` or `delay`."""

    def __init__(self) -> None:
        self.port = 0
        self.passed_bytes = 0
        """In both directions, of all connections."""
        self._behind = (BEHIND, 0)
        self._server: asyncio.Server | None = None
        self._faults: dict[str | None, _Faults] = {}
        self._changed = asyncio.Event()
        self._connections: dict[_Connection, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def open(self, behind: tuple[str, int] | None = None) -> None:
        """Accept connections for the server at `behind`, by default on a port that is free at `BEHIND`, too."""
        while self._server is None:
            server = await asyncio.start_server(self._accept, FRONT, 0)
            port = int(server.sockets[0].getsockname()[1])
            if behind is not None or await _is_free(port):
                self.port, self._server = port, server
            else:
                server.close()
        self._behind = behind or (BEHIND, self.port)

    def stall(self, client: str | None = None, directions: frozenset[Direction] = BOTH) -> None:
        """Let nothing through, without notifying the senders, as a partition does; what is sent waits."""
        self._of(client).stalled |= directions

    def delay(self, delay_s: float, client: str | None = None) -> None:
        """Let everything through this much later; each direction of a connection in its order."""
        self._of(client).delay_s = delay_s

    def reset(self, client: str | None = None) -> None:
        """Close every connection, with what waits in it; new ones are accepted."""
        for connection in list(self._connections):
            if client in (None, connection.client):
                connection.abort()

    def cut(self, client: str | None = None) -> None:
        """Close every connection, and every new one immediately."""
        self._of(client).is_cut = True
        self.reset(client)

    def heal(self, client: str | None = None) -> None:
        """Let everything through: what waited, and new connections. Without a client, for all of them."""
        if client is None:
            self._faults.clear()
        else:
            self._faults.pop(client, None)
        self._notify()

    async def close(self) -> None:
        self.cut()
        self._notify()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- faults

    def _of(self, client: str | None) -> _Faults:
        return self._faults.setdefault(client, _Faults())

    def _concerning(self, client: str) -> list[_Faults]:
        return [self._faults[each] for each in (None, client) if each in self._faults]

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _pass(self, client: str, direction: Direction) -> None:
        """Return when the link lets bytes of this direction through."""
        delay_s = max((each.delay_s for each in self._concerning(client)), default=0.0)
        if delay_s:
            await asyncio.sleep(delay_s)
        while any(direction in each.stalled for each in self._concerning(client)):
            await self._changed.wait()

    # ---- connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = _Connection(str(writer.get_extra_info("peername", ("",))[0]), writer)
        self._tasks[task] = None
        self._connections[connection] = None
        try:
            await self._serve(connection, reader)
        except (OSError, asyncio.CancelledError):
            return  # an end has closed, or the relay: both ends are closed below
        finally:
            connection.abort()
            del self._connections[connection], self._tasks[task]

    async def _serve(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        await self._pass(connection.client, Direction.REQUESTS)
        if any(each.is_cut for each in self._concerning(connection.client)):
            return
        behind_reader, behind_writer = await asyncio.open_connection(*self._behind)
        [front_writer] = connection.writers
        connection.writers.append(behind_writer)
        client = connection.client
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(client, Direction.REQUESTS, reader, behind_writer))
                both.create_task(self._pump(client, Direction.RESPONSES, behind_reader, front_writer))
        except* OSError:
            pass  # one end has closed: the other is closed by the caller

    async def _pump(
        self,
        client: str,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._pass(client, direction)
            if writer.is_closing():  # it was reset while the data waited, or the other end has closed it
                return
            writer.write(data)
            self.passed_bytes += len(data)
            await writer.drain()
        await self._pass(client, direction)  # a partition hides the end of the stream, too
        if not writer.is_closing():
            writer.write_eof()


async def _is_free(port: int) -> bool:
    try:
        server = await asyncio.start_server(lambda reader, writer: None, BEHIND, port)
    except OSError:
        return False
    server.close()
    await server.wait_closed()
    return True
