"""The Unix socket of a running bookie. Only the bookie's user may connect: its mode is 0600.

A request is given up when its client disconnects, so Ctrl-C ends what a command has begun.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bookie_server.control.messages import (
    HEARTBEAT,
    HEARTBEAT_S,
    REQUEST_BYTES_MAX,
    SOCKET_NAME,
    Answer,
    Request,
    decode_request,
    encode_answer,
)
from ledger.errors import LogStoreError

CONNECTIONS_MAX = 16
_REQUEST_S = 10.0
"""In which a client must have sent its request."""

Perform = Callable[[Request], Awaitable[Any]]


@contextmanager
def socket_address(directory: Path) -> Iterator[str]:
    """The address of the socket in this directory, which may have a longer path than an address has room for."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = Path(f"/proc/self/fd/{descriptor}")
        yield str((short if short.exists() else directory) / SOCKET_NAME)
    finally:
        os.close(descriptor)


class ControlSocket:
    """Serves from `open` to `close`."""

    def __init__(self, path: Path, perform: Perform) -> None:
        """Not for callers: see `open`."""
        self._path = path
        self._perform = perform
        self._stack = ExitStack()
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, directory: Path, perform: Perform) -> ControlSocket:
        """The caller holds the directory's lock, so a socket that is there is of a process that was killed.

        Raises:
            OSError: the socket cannot be made.
        """
        control = cls(directory / SOCKET_NAME, perform)
        with ExitStack() as stack:
            control._path.unlink(missing_ok=True)
            # The address must be valid for as long as the server: some event loops look at it when that is closed.
            listener = _listener(control._path, stack.enter_context(socket_address(directory)))
            stack.enter_context(listener)
            server = await asyncio.start_unix_server(control._accept, sock=listener, limit=REQUEST_BYTES_MAX)
            stack.callback(server.close)
            control._stack = stack.pop_all()
        return control

    async def close(self) -> None:
        """Requests that are being worked on are given up."""
        self._stack.close()
        for each in self._connections:
            each.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        with suppress(OSError):  # on a disk that has failed it stays, as that of a process that was killed
            self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(task)
        try:
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_REQUEST_S):
            try:
                line = await reader.readline()
            except ValueError:  # longer than a request may be
                return
        if not line.endswith(b"\n"):
            return
        work = asyncio.ensure_future(self._answer(line))
        hung_up = asyncio.ensure_future(reader.read(1))
        try:
            while not work.done() and not hung_up.done():
                await asyncio.wait({work, hung_up}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    writer.write(HEARTBEAT)
                    await writer.drain()
            if work.done():
                for piece in encode_answer(work.result()):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)  # `drain` alone lets the loop go on only while the client is slow
        finally:
            work.cancel()
            hung_up.cancel()
            await asyncio.wait({work, hung_up})

    async def _answer(self, line: bytes) -> Answer:
        try:
            return Answer(await self._perform(decode_request(line)))
        except LogStoreError as error:
            return Answer(error=str(error))


def _listener(path: Path, address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        path.chmod(0o600)  # before it listens: until then no one can connect
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
