"""All connections of one bookie: which are accepted, which are closed, which wait for capacity.

Nothing here runs per request; one timer looks at every connection once in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from bookie_server.config import Limits
from bookie_server.net.answer_budget import AnswerBudget
from bookie_server.net.bad_peers import BadPeers
from bookie_server.net.client_connection import ClientConnection, PauseReason
from bookie_server.net.deadlines import PeerActivity, overdue
from bookie_server.net.read_queue import ReadSlots
from bookie_server.net.receive_buffer import ReceiveBudget
from bookie_server.protocol.service import BookieService
from ledger.errors import ProtocolError

logger = logging.getLogger(__name__)

SWEEP_S = 1.0
RELIEF_S = 0.02
"""Reads that wait for other peers to take their answers look again so often."""
REFUSALS_REPORT_S = 60.0
"""Refused connections are counted, and reported no more often, and once more when the bookie stops."""


class Connections:
    """The host that each connection knows (connection.Host)."""

    def __init__(self, limits: Limits, service: BookieService) -> None:
        self.limits = limits
        self.service = service
        self.read_slots = ReadSlots(limits.reads_max)
        self.receive_budget = ReceiveBudget(limits.receive_bytes_max)
        self.answer_budget = AnswerBudget(limits)
        # In the order in which they came: a set's own order is another in each process.
        self._open: dict[ClientConnection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        """Long polls by address."""
        self._refused: Counter[str] = Counter()
        self._refusals_due = 0.0
        self._sent_before = 0
        """Bytes of responses over connections that are closed."""
        self._bad_peers = BadPeers()
        self._relief: asyncio.TimerHandle | None = None
        self._room: asyncio.Task[None] | None = None
        self._fillers: set[ClientConnection] = set()
        """Those that found no room since room was last awaited."""
        self._stopping = False
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def sent_bytes(self) -> int:
        """Bytes of responses over all connections so far."""
        return self._sent_before + sum(each.sent_bytes for each in self._open)

    def make(self) -> ClientConnection:
        """A connection for a socket that was just accepted."""
        return ClientConnection(self)

    # ---- what a connection asks (connection.Host)

    @property
    def stopping(self) -> bool:
        """No more requests are accepted."""
        return self._stopping

    def admit(self, connection: ClientConnection) -> bool:
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
        if self._room is not None:
            # Peers that give up and come again would each bring one more read's worth of adds.
            connection.hold(PauseReason.ROOM)
        return True

    def gone(self, connection: ClientConnection) -> None:
        if connection not in self._open:
            return
        del self._open[connection]
        self._sent_before += connection.sent_bytes
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]
        if not self._open:
            self._all_gone.set()

    def may_wait(self, address: str) -> bool:
        """Whether this peer may have another long poll: one host has no more than half of all."""
        return 2 * self._waiting[address] < self.limits.long_polls_max

    def count_waiting(self, address: str, change: int) -> None:
        """The number of this peer's waiting long polls has changed by `change`."""
        self._waiting[address] += change
        if not self._waiting[address]:
            del self._waiting[address]

    def count_unsent(self, byte_count: int) -> None:
        """The size of responses that peers have not read has changed by `byte_count`."""
        self.answer_budget.unsent_bytes += byte_count

    def count_running_read(self, change: int) -> None:
        """One more read runs, or one fewer (-1)."""
        self.answer_budget.running_reads += change

    def read_refused(self) -> None:
        """A read waits because of what other connections hold: call `start_reads` when that has changed."""
        if self._relief is None:
            self._relief = asyncio.get_running_loop().call_later(RELIEF_S, self._relieve)

    def hold_until_room(self, connection: ClientConnection) -> None:
        """The storage has no room: hold this connection, and all others, until it has."""
        connection.hold(PauseReason.ROOM)
        self._fillers.add(connection)
        if self._room is None:
            self._hold_all()
            self._room = asyncio.get_running_loop().create_task(self._await_room())

    def report_bad_peer(self, address: str, error: ProtocolError) -> None:
        self._bad_peers.note(address, error)

    # ---- stopping

    def start_draining(self) -> None:
        """Accept no more connections and no more requests."""
        self._stopping = True
        for each in self._open:
            each.hold(PauseReason.STOPPING)

    async def close(self, patience_s: float) -> None:
        """Send the responses that are ready and close; abort connections whose peers do not read them in time."""
        self._stop_timers()
        self._report_refusals()
        self._bad_peers.report()
        self.service.damage.report()
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
        """Abort all connections."""
        self._stop_timers()
        for each in list(self._open):
            each.abort()

    def _stop_timers(self) -> None:
        self._sweep_timer.cancel()
        if self._relief is not None:
            self._relief.cancel()

    # ---- upkeep

    async def _await_room(self) -> None:
        """Release all connections when there is room; those that filled it a turn of the loop after the others.

        Read in the same turn, the busiest one might come first each time and fill it before any other is read.
        """
        try:
            while self._fillers:
                await self.service.storage.wait_for_room()
                fillers, self._fillers = self._fillers, set()
                for each in self._open:
                    if each not in fillers:
                        each.release(PauseReason.ROOM)
                await asyncio.sleep(0)
                if self._fillers:
                    self._hold_all()
        finally:
            self._room = None
        for each in self._open:
            each.release(PauseReason.ROOM)

    def _hold_all(self) -> None:
        for each in self._open:
            each.hold(PauseReason.ROOM)

    def _relieve(self) -> None:
        """Count what peers have taken, and let those reads start that have a place now.

        Those of the address that holds least first: one host with many peers does not keep others out.
        """
        self._relief = None
        held = Counter[str]()
        for each in self._open:
            each.count_unsent()
            held[each.address] += each.unsent_bytes
        for each in sorted(self._open, key=lambda each: held[each.address]):
            each.start_reads()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._refusals_due and self._report_refusals():
            self._refusals_due = loop.time() + REFUSALS_REPORT_S
        self._bad_peers.report_due(loop.time())
        self.service.damage.report_due(loop.time())
        for each in list(self._open):
            each.note_progress(loop.time())
            reason = overdue(self.limits, loop.time(), _activity(each))
            if reason is not None:
                logger.debug("closing the connection of %r: it %s", each.address, reason)
                each.abort()
        self.answer_budget.refused = self._relief is not None
        self._sweep_timer = loop.call_later(SWEEP_S, self._sweep)

    def _report_refusals(self) -> bool:
        """Log the connections refused since the last report; whether there were any."""
        if not self._refused:
            return False
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
        return True


def _activity(connection: ClientConnection) -> PeerActivity:
    return PeerActivity(
        has_spoken=connection.has_spoken,
        partial_bytes=connection.partial_bytes,
        idle=connection.idle,
        held=connection.held,
        crowds=connection.crowds,
        frame_started=connection.frame_started,
        last_received=connection.last_received,
        stalled_since=connection.stalled_since,
        blocks_reads=connection.blocks_reads,
    )
