"""One client connection: bytes are received, requests served, responses sent.

All complete frames of one read are served together, and their responses leave in one write, up to `SERVED_MAX`
requests in a turn of the loop. The first frame that is not v3 makes the connection v2 permanently
(docs/bookkeeper.md#telling-v2-from-v3).

Invariant: whatever the peer does, the memory it occupies is bounded: by the frame limit and the receive budget of all
peers, by the adds and other requests that wait for the disk, and by the responses that it has not read. While a bound
is exceeded, the connection is not read; nothing is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Flag, auto
from functools import partial
from typing import Protocol, cast

from bookie_server.config import Limits
from bookie_server.net.answer_budget import LIGHT_BYTES, AnswerBudget
from bookie_server.net.read_queue import ReadQueue, ReadSlots, Work
from bookie_server.net.receive_buffer import LENGTH, ReceiveBudget, ReceiveBuffer, frame_end
from bookie_server.protocol import v2, v2_adds, v3
from bookie_server.protocol.long_poll import Waiter
from bookie_server.protocol.requests import Decoder
from bookie_server.protocol.serve import serve
from bookie_server.protocol.service import BookieService
from ledger.errors import ProtocolError

V2 = Decoder(v2_adds.gather, v2.decode)
V3 = Decoder(v3.gather, v3.decode)
JOIN_BYTES_MAX = 256 * 1024
"""Responses up to this size are joined into one write; larger ones are passed part by part."""
SERVED_MAX = 64
"""Requests that are served in one turn of the loop; adds that arrived together are one, and so are explicit LACs.

A read of small requests has fifteen thousand, and no other peer is served until all of them are.
"""


class PauseReason(Flag):
    """Reasons why nothing more is read from a connection."""

    ANSWERS = auto()
    """The peer does not read its responses."""
    READS = auto()
    """Too many reads wait."""
    ADDS = auto()
    """Too many of its adds, fences, forces and explicit LACs wait for the disk."""
    BUDGET = auto()
    """Its incomplete frame does not fit the receive budget."""
    ROOM = auto()
    """The storage has no capacity for adds."""
    STOPPING = auto()
    TURN = auto()
    """More requests came than are served in one turn of the loop."""


NO_HOLD = PauseReason(0)


class Host(Protocol):
    """What a connection needs of the server around it."""

    @property
    def limits(self) -> Limits: ...

    @property
    def service(self) -> BookieService: ...

    @property
    def read_slots(self) -> ReadSlots: ...

    @property
    def receive_budget(self) -> ReceiveBudget: ...

    @property
    def answer_budget(self) -> AnswerBudget: ...

    @property
    def stopping(self) -> bool: ...

    def admit(self, connection: ClientConnection) -> bool:
        """Whether there is room for another connection from this peer."""

    def gone(self, connection: ClientConnection) -> None: ...

    def may_wait(self, address: str) -> bool:
        """Whether this peer may have another long poll."""

    def count_waiting(self, address: str, change: int) -> None:
        """The number of this peer's waiting long polls has changed by `change`."""

    def count_unsent(self, byte_count: int) -> None:
        """The size of responses that peers have not read has changed by `byte_count`."""

    def count_running_read(self, change: int) -> None:
        """One more read runs, or one fewer (-1)."""

    def read_refused(self) -> None:
        """A read waits because of what other connections hold: call `start_reads` when that has changed."""

    def hold_until_room(self, connection: ClientConnection) -> None:
        """The storage has no room: hold this connection, and all others, until it has."""

    def report_bad_peer(self, address: str, error: ProtocolError) -> None: ...


class ClientConnection(asyncio.BufferedProtocol):
    """One client; one object per accepted socket."""

    def __init__(self, host: Host) -> None:
        self.service = host.service
        self.address = ""
        self.closed = False
        self.last_received = self.frame_started = 0.0
        self.stalled_since: float | None = None
        """Since when it has taken none of its answers; None if there are none, or it takes them."""
        self.has_spoken = False
        self._host = host
        self._limits = host.limits
        self._buffer = ReceiveBuffer(
            host.receive_budget, host.limits.frame_bytes_max, partial(self.release, PauseReason.BUDGET)
        )
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._decoder = V3
        self._holds = NO_HOLD
        self._reads = ReadQueue(
            host.read_slots,
            host.limits.connection_reads_max,
            self.may_answer,
            self._reads_changed,
            host.count_running_read,
        )
        self._waiters: dict[Waiter, None] = {}
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._flush_due = False
        self._receiving = False
        self._deferred: bytes | None = None
        """Frames that came while it was held until the storage has room, or that are left to the next turn."""
        self._unsent = 0
        self._written = self._taken = 0
        self._large: deque[tuple[int, int]] = deque()
        """Where in all that was written each large part ends that the peer has not taken whole, and its size."""
        self._add_bytes = 0

    # ---- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.connection_unsent_bytes_max)
        peer = transport.get_extra_info("peername")
        self.address = self._buffer.address = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        self.last_received = self.frame_started = self._loop.time()
        if not self._host.admit(self):
            self.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_received = self._loop.time()
        self._buffer.received(nbytes)
        try:
            block = self._buffer.block()
        except ProtocolError as error:
            self._refuse(error)
            return
        if block is None:
            if self._buffer.waits:
                self.hold(PauseReason.BUDGET)
        elif PauseReason.ROOM in self._holds and self._transport is not None:
            # uvloop begins to read after `connection_made`, also what that has paused.
            self._deferred = block
            self._transport.pause_reading()
        else:
            self._serve(block)

    def _serve(self, block: bytes) -> None:
        """The frames that the buffer has given out, and what follows from them."""
        self._receiving = True
        try:
            consumed = self._take(block)
            self._buffer.keep(block, consumed)
            if self._buffer.waits:
                self.hold(PauseReason.BUDGET)
            self.has_spoken = True
            self.frame_started = self.last_received
        except ProtocolError as error:
            self._refuse(error)
        finally:
            self._receiving = False
        if self._out:
            self._flush()
        self._hold_if_overloaded()

    def _refuse(self, error: ProtocolError) -> None:
        self._host.report_bad_peer(self.address, error)
        self.abort()

    def eof_received(self) -> None:
        """A peer that half-closes is closed; adds accepted before are stored all the same."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._deferred = None
        self._buffer.close()
        self._out.clear()
        self._reads.close(cancel=self._host.stopping)
        for waiter in self._waiters:
            self.service.watchers.cancel(waiter)
        self._host.count_waiting(self.address, -len(self._waiters))
        self._waiters.clear()
        self._count_unsent(0)
        self._host.gone(self)

    def pause_writing(self) -> None:
        self.hold(PauseReason.ANSWERS)

    def resume_writing(self) -> None:
        self.release(PauseReason.ANSWERS)
        self._count_unsent(self._held_bytes())
        self.start_reads()

    # ---- frames

    def _take(self, block: bytes) -> int:
        """Serve the complete frames of `block`, or defer what follows; return the number of bytes that this is."""
        position, end, frame_bytes_max = 0, len(block), self._limits.frame_bytes_max
        left = SERVED_MAX
        while position < end:
            if not left:
                self._deferred = block[position:]
                self.hold(PauseReason.TURN)
                self._loop.call_soon(self.release, PauseReason.TURN)
                return end
            left -= 1
            writes, position = self._decoder.gather(block, position, frame_bytes_max)
            if writes is not None:
                # Stored before the next frame is decoded: it may be a fence, or end the connection.
                serve(self, writes)
                continue
            stop = frame_end(block, position, frame_bytes_max)
            if stop is None:
                break
            request = self._decoder.decode(block, position + LENGTH.size, stop)
            if request is None:
                self._decoder = V2
                continue
            serve(self, request)
            position = stop
        return position

    # ---- what serving a request may ask (peer.Peer)

    def may_answer(self, urgent: bool) -> bool:
        if (
            self._holds != NO_HOLD and PauseReason.ANSWERS in self._holds
        ) or self._out_bytes >= self._limits.connection_unsent_bytes_max:
            return False
        if self._host.answer_budget.has_place(
            self._unsent + self._out_bytes, self._reads.running, urgent=urgent
        ):
            return True
        self._host.read_refused()
        return False

    def send(self, *parts: bytes | memoryview) -> None:
        if self.closed:
            return
        self._out += parts
        self._out_bytes += sum(map(len, parts))
        if not self._flush_due and not self._receiving:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def read_later(self, work: Work, *, urgent: bool) -> None:
        self._reads.submit(work, urgent=urgent)

    @property
    def may_wait(self) -> bool:
        return len(self._waiters) < self._limits.connection_long_polls_max and self._host.may_wait(
            self.address
        )

    def watch(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None
        self._host.count_waiting(self.address, 1)

    def unwatch(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._host.count_waiting(self.address, -1)

    def adds_accepted(self, byte_count: int) -> None:
        self._add_bytes += byte_count

    def adds_answered(self, byte_count: int) -> None:
        self._add_bytes -= byte_count
        if (
            self._holds != NO_HOLD
            and PauseReason.ADDS in self._holds
            and 2 * self._add_bytes < self._limits.connection_add_bytes_max
        ):
            self.release(PauseReason.ADDS)

    # ---- backpressure

    def hold(self, reason: PauseReason) -> None:
        """Read nothing from the peer until all reasons are released."""
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._holds |= reason

    def release(self, reason: PauseReason) -> None:
        had = self._holds
        self._holds &= ~reason
        if had and not self._holds and self._transport is not None and not self._transport.is_closing():
            # The pause was ours: it must not count against the peer's frame.
            self.frame_started = self.last_received = self._loop.time()
            if self._deferred is None:
                self._transport.resume_reading()
            else:
                self._loop.call_soon(self._serve_deferred)

    def _serve_deferred(self) -> None:
        block = self._deferred
        if block is None or self._holds or self.closed or self._transport is None:
            return
        self._deferred = None
        self._serve(block)
        if not self._holds and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def held(self) -> bool:
        return bool(self._holds)

    @property
    def partial_bytes(self) -> int:
        """Bytes of a frame that has begun to arrive."""
        return self._buffer.partial_bytes

    @property
    def crowds(self) -> bool:
        """Its incomplete frame has a place in the receive budget for which others wait."""
        return bool(self._buffer.taken_bytes) and self._host.receive_budget.exhausted

    @property
    def idle(self) -> bool:
        """Nothing of this peer is being worked on or on its way to it."""
        return self._deferred is None and not (
            self._add_bytes or self._reads.busy or self._waiters or self._out or self._transport_bytes()
        )

    @property
    def blocks_reads(self) -> bool:
        """It holds so much that others' reads have to wait."""
        return self._unsent > LIGHT_BYTES and self._host.answer_budget.refused

    @property
    def sent_bytes(self) -> int:
        """Bytes of responses so far, also those that the peer has not taken."""
        return self._written

    @property
    def unsent_bytes(self) -> int:
        """What its answers hold that it has not taken, as last counted."""
        return self._unsent

    def count_unsent(self) -> None:
        """Count what the peer has not read; it reads without any event here."""
        if self._unsent:
            self._count_unsent(self._held_bytes())

    def note_progress(self, now: float) -> None:
        """Keep `stalled_since` up to date; to be called now and then."""
        self.count_unsent()
        taken = self._written - self._transport_bytes()
        if not self._unsent:
            self.stalled_since = None
        elif self.stalled_since is None or taken > self._taken:
            self.stalled_since = now
        self._taken = taken

    def close(self) -> None:
        """Send the responses that are ready, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close immediately. The peer sees a reset; unsent responses are lost."""
        self.closed = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    def _hold_if_overloaded(self) -> None:
        if self._add_bytes > self._limits.connection_add_bytes_max:
            self.hold(PauseReason.ADDS)
        if not self.service.storage.has_room:
            self._host.hold_until_room(self)
        self._reads_changed()

    def _reads_changed(self) -> None:
        waiting, waiting_max = self._reads.waiting, self._limits.connection_reads_queued_max
        if waiting > waiting_max:
            self.hold(PauseReason.READS)
        elif self._holds != NO_HOLD and PauseReason.READS in self._holds and 2 * waiting < waiting_max:
            self.release(PauseReason.READS)

    def start_reads(self) -> None:
        """Peers have read responses: start reads that had to wait for that."""
        self._reads.start_more()
        self._reads_changed()

    # ---- answers

    def _flush(self) -> None:
        self._flush_due = False
        parts, self._out = self._out, []
        byte_count, self._out_bytes = self._out_bytes, 0
        if not parts or self.closed or self._transport is None:
            return
        if byte_count > LIGHT_BYTES:
            self._note_large(parts)
        self._written += byte_count
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif byte_count <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        self._count_unsent(self._held_bytes())
        if self._reads.waiting:
            self.start_reads()

    def _transport_bytes(self) -> int:
        return 0 if self._transport is None or self.closed else self._transport.get_write_buffer_size()

    def _note_large(self, parts: list[bytes | memoryview]) -> None:
        end = self._written
        for part in parts:
            end += len(part)
            if len(part) > LIGHT_BYTES:
                self._large.append((end, len(part)))

    def _held_bytes(self) -> int:
        """What answers hold that the peer has not taken: a large part whole until its last byte is sent."""
        unsent = self._transport_bytes()
        if not self._large:
            return unsent
        taken = self._written - unsent
        while self._large and self._large[0][0] <= taken:
            self._large.popleft()
        if not self._large:
            return unsent
        end, size = self._large[0]
        return unsent + max(0, taken - (end - size))

    def _count_unsent(self, byte_count: int) -> None:
        if byte_count != self._unsent:
            self._host.count_unsent(byte_count - self._unsent)
            self._unsent = byte_count
