"""Connections to bookies, shared by every handle of a client: at most one of each protocol per bookie."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from ledger.config import LedgerClientConfig, WireProtocol
from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, BookieInfo
from ledger.transport.connection import BookieConnection
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.v2_connection import V2Connection
from ledger.transport.v3_connection import V3Connection

C = TypeVar("C", bound=BookieConnection)
Resolve = Callable[[BookieId], Awaitable[BookieInfo | None]]


class _Line(Generic[C]):
    """The connections of one protocol, and the attempts under way."""

    def __init__(self, make: Callable[[BookieId], C], resolve: Resolve, config: LedgerClientConfig) -> None:
        self._make = make
        self._resolve = resolve
        self._config = config
        self._open: dict[BookieId, C] = {}
        self._opening: dict[BookieId, asyncio.Task[C]] = {}
        self._closed = False

    def now(self, bookie_id: BookieId) -> C | None:
        connection = self._open.get(bookie_id)
        return connection if connection is not None and connection.lost is None else None

    async def get(self, bookie_id: BookieId) -> C:
        connection = self.now(bookie_id)
        if connection is not None:
            return connection
        if self._closed:
            raise self._closed_error(bookie_id)
        task = self._opening.get(bookie_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(bookie_id))
            self._opening[bookie_id] = task
            task.add_done_callback(lambda done: self._opened(bookie_id, done))
        # Waited for, not awaited: one impatient caller must not cancel the attempt that others share, and an
        # attempt that `close` ends must not look like a cancellation of those who wait for it.
        await asyncio.wait([task])
        if task.cancelled():
            raise self._closed_error(bookie_id)
        try:
            return task.result()
        finally:
            del task  # a cycle with the error, whose traceback holds this frame

    def _opened(self, bookie_id: BookieId, task: asyncio.Task[C]) -> None:
        self._opening.pop(bookie_id, None)
        if not task.cancelled() and task.exception() is None:
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
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: self._make(bookie_id), info.host, info.port
                )
        except (OSError, ValueError, OverflowError) as error:
            # The last two: a registered host or port that cannot be one. A timeout is an OSError.
            raise BookieUnavailableError(
                f"cannot connect to bookie {bookie_id}{place}: {str(error) or 'timed out'}",
                bookie_id=bookie_id,
            ) from error
        return connection

    def _closed_error(self, bookie_id: BookieId) -> BookieUnavailableError:
        return BookieUnavailableError(
            f"no connection to bookie {bookie_id}: the ledger client is closed", bookie_id=bookie_id
        )

    async def close(self) -> None:
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._open.values():
            connection.give_up("the ledger client is closed")
        self._open.clear()


class ConnectionPool:
    """`entries` carries adds and reads, `v3` explicit LACs and long polls, which only that version has.

    Recovery has connections of its own, so that its adds are never answered to a writer of the same ledger.
    """

    def __init__(self, resolve: Resolve, config: LedgerClientConfig) -> None:
        queue, frame = config.send_queue_bytes_max, config.frame_bytes_max
        carrier = V2Connection if config.wire is WireProtocol.V2 else V3Connection

        def for_entries(bookie_id: BookieId) -> EntryConnection:
            return carrier(bookie_id, queue, frame)

        self._entries = _Line(for_entries, resolve, config)
        self._recovery = _Line(for_entries, resolve, config)
        self._v3 = _Line(lambda bookie_id: V3Connection(bookie_id, queue, frame), resolve, config)
        self._txn_ids = itertools.count(1) if config.wire is WireProtocol.V3 else None

    def txn_ids_of_adds(self) -> Iterator[int] | None:
        """For adds in version 3: no two of one client are alike. None if adds are in version 2, which has none."""
        return self._txn_ids

    def entries_now(self, bookie_id: BookieId) -> EntryConnection | None:
        """The connection if it is up; no attempt is made."""
        return self._entries.now(bookie_id)

    async def entries(self, bookie_id: BookieId) -> EntryConnection:
        """Connect if needed. BookieUnavailableError."""
        return await self._entries.get(bookie_id)

    async def recovery(self, bookie_id: BookieId) -> EntryConnection:
        """Connect if needed. BookieUnavailableError."""
        return await self._recovery.get(bookie_id)

    async def v3(self, bookie_id: BookieId) -> V3Connection:
        """Connect if needed. BookieUnavailableError."""
        return await self._v3.get(bookie_id)

    def v3_now(self, bookie_id: BookieId) -> V3Connection | None:
        return self._v3.now(bookie_id)

    async def close(self) -> None:
        await self._entries.close()
        await self._recovery.close()
        await self._v3.close()
