"""All connections of one bookie: who is let in, who is cut off, who waits for room.

Nothing here runs per request; one timer looks at every connection once in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from bookie_server.config import Limits
from bookie_server.connection import BookieConnection, Hold
from bookie_server.deadlines import PeerActivity, overdue
from bookie_server.read_queue import ReadSlots
from bookie_server.receive_buffer import ReceiveBudget
from bookie_server.service import BookieService
from ledger.errors import ProtocolError

logger = logging.getLogger(__name__)

SWEEP_S = 1.0
REFUSALS_REPORT_S = 60.0
"""Refused connections are counted, and reported no more often."""


class Connections:
    """The host that each connection knows (connection.Host)."""

    def __init__(self, limits: Limits, service: BookieService) -> None:
        self.limits = limits
        self.service = service
        self.read_slots = ReadSlots(limits.reads_max)
        self.receive_budget = ReceiveBudget(limits.receive_bytes_max)
        self.unsent_bytes = 0
        # In the order in which they came: a set's own order is another in each process.
        self._open: dict[BookieConnection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._refusals_due = 0.0
        self._room: asyncio.Task[None] | None = None
        self._stopping = False
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def __len__(self) -> int:
        return len(self._open)

    def make(self) -> BookieConnection:
        """A connection for a socket that was just accepted."""
        return BookieConnection(self)

    # ---- what a connection asks (connection.Host)

    def admit(self, connection: BookieConnection) -> bool:
        """Whether there is room for another connection from this peer."""
        address = connection.address
        if self._stopping:
            return False
        if (
            len(self._open) >= self.limits.connections_max
            or self._per_address[address] >= self.limits.connections_per_address_max
        ):
            self._refused[address] += 1
            return False
        self._per_address[address] += 1
        self._open[connection] = None
        self._all_gone.clear()
        return True

    def gone(self, connection: BookieConnection) -> None:
        if connection not in self._open:
            return
        del self._open[connection]
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]
        if not self._open:
            self._all_gone.set()

    def count_unsent(self, byte_count: int) -> None:
        """`unsent_bytes` has changed by so many."""
        was_full = self.unsent_bytes >= self.limits.unsent_bytes_max
        self.unsent_bytes += byte_count
        if was_full and self.unsent_bytes < self.limits.unsent_bytes_max:
            asyncio.get_running_loop().call_soon(self._start_reads)

    def hold_until_room(self, connection: BookieConnection) -> None:
        """The storage has no room: hold this connection, and all others, until it has."""
        connection.hold(Hold.ROOM)
        if self._room is None:
            for each in self._open:
                each.hold(Hold.ROOM)
            self._room = asyncio.get_running_loop().create_task(self._await_room())

    def report_bad_peer(self, address: str, error: ProtocolError) -> None:
        logger.info("closing the connection of %r: %s", address, error)

    # ---- stopping

    def start_draining(self) -> None:
        """Take nothing more: no connection, no request."""
        self._stopping = True
        for each in self._open:
            each.hold(Hold.STOPPING)

    async def close(self, patience_s: float) -> None:
        """Send what is answered, close, and cut off who does not take it in time."""
        self._sweep_timer.cancel()
        if self._room is not None:
            self._room.cancel()
            await asyncio.wait([self._room])
        for each in list(self._open):
            each.close()
        try:
            async with asyncio.timeout(patience_s):
                await self._all_gone.wait()
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Cut everybody off."""
        self._sweep_timer.cancel()
        for each in list(self._open):
            each.abort()

    # ---- upkeep

    async def _await_room(self) -> None:
        try:
            await self.service.storage.wait_for_room()
        finally:
            self._room = None
        for each in self._open:
            each.release(Hold.ROOM)

    def _start_reads(self) -> None:
        for each in list(self._open):
            each.start_reads()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._report_refusals(loop.time())
        for each in list(self._open):
            reason = overdue(self.limits, loop.time(), _activity(each, loop.time()))
            if reason is not None:
                logger.info("closing the connection of %r: it %s", each.address, reason)
                each.abort()
        self._sweep_timer = loop.call_later(SWEEP_S, self._sweep)

    def _report_refusals(self, now: float) -> None:
        if not self._refused or now < self._refusals_due:
            return
        address, count = self._refused.most_common(1)[0]
        logger.warning(
            "refused %d connections, %d of them from %s, which has %d: %d are open, %d may be, %d from one address",
            self._refused.total(),
            count,
            address,
            self._per_address.get(address, 0),
            len(self._open),
            self.limits.connections_max,
            self.limits.connections_per_address_max,
        )
        self._refused.clear()
        self._refusals_due = now + REFUSALS_REPORT_S


def _activity(connection: BookieConnection, now: float) -> PeerActivity:
    if connection.answers_stalled and connection.take_progress():
        connection.send_stalled_since = now
    return PeerActivity(
        has_spoken=connection.has_spoken,
        partial_bytes=connection.partial_bytes,
        idle=connection.idle,
        held=connection.held,
        crowds=connection.crowds,
        frame_started=connection.frame_started,
        last_received=connection.last_received,
        stalled_since=connection.send_stalled_since if connection.answers_stalled else None,
    )
