"""Connections to bookies: at most one of each protocol per bookie, shared by every handle of a client.

A recovery has some of its own (`for_recovery`).
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from ledger.buggify import buggify
from ledger.config import LedgerClientConfig, WireProtocol
from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, BookieInfo
from ledger.tasks import start_task
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.v2_connection import V2Connection
from ledger.transport.v3_connection import V3Connection

_LAST_S = 1.0
"""How long the whole loop may wait for one connection at the end of a program."""

C = TypeVar("C", bound=EntryConnection)
Resolve = Callable[[BookieId], Awaitable[BookieInfo | None]]


class ConnectionSet(Generic[C]):
    """The connections of one protocol for one purpose, and the attempts in progress."""

    def __init__(self, make: Callable[[BookieId], C], resolve: Resolve, config: LedgerClientConfig) -> None:
        self._make = make
        self._resolve = resolve
        self._config = config
        self._open: dict[BookieId, C] = {}
        self._opening: dict[BookieId, asyncio.Task[C]] = {}
        self._ended: str | None = None
        """Why there are no more connections."""

    def now(self, bookie_id: BookieId) -> C | None:
        """The connection if it is up and may be relied on."""
        connection = self._open.get(bookie_id)
        if connection is None or connection.lost is not None:
            return None
        if connection.is_stale(self._config.idle_connection_s):
            connection.give_up(f"the connection to bookie {bookie_id} was idle for too long")
            return None
        return connection

    async def get(self, bookie_id: BookieId) -> C:
        """The connection, made if necessary.

        Raises:
            BookieUnavailableError: it could not be made.
        """
        connection = self.now(bookie_id)
        if connection is not None and connection.is_stale(0.0) and buggify("client.idle-connection"):
            connection.give_up(f"the connection to bookie {bookie_id} is closed by force")
            connection = None
        if connection is not None:
            return connection
        if self._ended is not None:
            raise self._ended_error(bookie_id)
        task = self._opening.get(bookie_id)
        if task is None:
            task = start_task(self._connect(bookie_id))
            self._opening[bookie_id] = task
            task.add_done_callback(lambda done: self._opened(bookie_id, done))
        # Waited for, not awaited: a cancelled caller must not cancel the attempt that others share, and an
        # attempt that `end` cancels must not look like a cancellation of those who wait for it.
        await asyncio.wait([task])
        if task.cancelled():
            raise self._ended_error(bookie_id)
        try:
            return task.result()
        finally:
            del task  # a cycle with the error, whose traceback holds this frame

    def _opened(self, bookie_id: BookieId, task: asyncio.Task[C]) -> None:
        self._opening.pop(bookie_id, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._ended is not None:
            task.result().give_up(self._ended)
        else:
            self._open[bookie_id] = task.result()

    async def _connect(self, bookie_id: BookieId) -> C:
        place = ""
        try:
            async with asyncio.timeout(self._config.connect_timeout_s):
                info = await self._resolve(bookie_id)
                if info is None:
                    raise BookieUnavailableError(
                        f"bookie {bookie_id} is not registered; is it running?", bookie_id=bookie_id
                    )
                place = f" at {info.host}:{info.port}"
                connection = await self._connect_to(bookie_id, info)
        except (OSError, ValueError, OverflowError) as error:
            # The last two: a registered host or port that cannot be one. A timeout is an OSError.
            raise BookieUnavailableError(
                f"cannot connect to bookie {bookie_id}{place}: {str(error) or 'timed out'}",
                bookie_id=bookie_id,
            ) from error
        return connection

    async def _connect_to(self, bookie_id: BookieId, info: BookieInfo) -> C:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: self._make(bookie_id), info.host, info.port)
        except RuntimeError as error:
            # asyncio looks a name up in a thread, and none can begin any more in what a program does at its end, as
            # the closing of a client in a function of `atexit`.
            if isinstance(error, NotImplementedError):
                raise  # of a loop that does not connect at all
            _, connection = await loop.create_connection(
                lambda: self._make(bookie_id),
                sock=socket.create_connection((info.host, info.port), timeout=_LAST_S),
            )
        return connection

    def _ended_error(self, bookie_id: BookieId) -> BookieUnavailableError:
        return BookieUnavailableError(
            f"no connection to bookie {bookie_id}: {self._ended}", bookie_id=bookie_id
        )

    def end(self, reason: str) -> None:
        """Close all connections and open no more. Pending requests fail with the reason."""
        for connection in self._let_go(reason):
            connection.give_up(reason)

    def retire(self, reason: str) -> None:
        """As `end`, except that a connection on which answers to adds are awaited stays until they have come."""
        for connection in self._let_go(reason):
            connection.retire(reason)

    def _let_go(self, reason: str) -> list[C]:
        self._ended = reason
        for task in self._opening.values():
            task.cancel()
        connections = list(self._open.values())
        self._open.clear()
        return connections

    async def close(self, reason: str) -> None:
        """As `end`; return once no attempt is in progress."""
        opening = list(self._opening.values())
        self.end(reason)
        await asyncio.gather(*opening, return_exceptions=True)


class ConnectionPool:
    """`entries` carries adds and reads, `v3` explicit LACs and long polls, which only that version has."""

    def __init__(self, resolve: Resolve, config: LedgerClientConfig) -> None:
        self._resolve = resolve
        self._config = config
        self.entry_connections = self._set_for_entries()
        queue, frame = config.send_queue_bytes_max, config.frame_bytes_max
        self.v3_connections = ConnectionSet(
            lambda bookie_id: V3Connection(bookie_id, queue, frame), resolve, config
        )
        self._txn_ids = itertools.count(1) if config.wire is WireProtocol.V3 else None
        self.txn_ids_of_lacs: Iterator[int] = itertools.count(1)
        """Transaction ids for explicit LACs, unique within the client, because every bookie gets the same bytes.

        Other requests on a connection may have the same ones: answers are matched by the operation, too.
        """

    def _set_for_entries(self) -> ConnectionSet[EntryConnection]:
        queue, frame = self._config.send_queue_bytes_max, self._config.frame_bytes_max
        carrier = V2Connection if self._config.wire is WireProtocol.V2 else V3Connection
        return ConnectionSet(lambda bookie_id: carrier(bookie_id, queue, frame), self._resolve, self._config)

    def for_recovery(self) -> ConnectionSet[EntryConnection]:
        """Connections for one recovery, which ends them.

        Answers to its adds must not reach a writer of the same ledger. And none may be older than the recovery: an
        idle connection may have lost its peer unnoticed, which would cost a timeout while the log has no writer.
        """
        return self._set_for_entries()

    def txn_ids_of_adds(self) -> Iterator[int] | None:
        """Transaction ids for adds in version 3, unique within the client. None for version 2, which has none."""
        return self._txn_ids

    def entries_now(self, bookie_id: BookieId) -> EntryConnection | None:
        """The connection if it is up; no attempt is made."""
        return self.entry_connections.now(bookie_id)

    async def entries(self, bookie_id: BookieId) -> EntryConnection:
        """The connection for adds and reads, made if necessary.

        Raises:
            BookieUnavailableError: it could not be made.
        """
        return await self.entry_connections.get(bookie_id)

    async def v3(self, bookie_id: BookieId) -> V3Connection:
        """The version 3 connection, made if necessary.

        Raises:
            BookieUnavailableError: it could not be made.
        """
        return await self.v3_connections.get(bookie_id)

    async def close(self) -> None:
        """Close all connections. Recoveries must have ended before."""
        closed = "the ledger client is closed"
        await self.entry_connections.close(closed)
        await self.v3_connections.close(closed)
