"""What both protocols share: one TCP connection to one bookie, its life and its limits.

Invariant: every request expects an answer. A connection that receives nothing at all within the timeout of a request
is closed, whichever caller sent it. The kernel reports a vanished peer only after a quarter of an hour of resending,
and only a new connection finds a bookie that is back. Each caller has a timeout of its own in addition: a bookie that
answers other requests is alive, and may still not answer this one.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from typing import cast

from ledger.errors import BookieUnavailableError, ProtocolError
from ledger.model import BookieId

_JOIN_BYTES_MAX = 64 * 1024
"""Up to this size one copy costs less than a write for each part."""

_PAUSE_S = 1.0
"""A timer that is later than this shows that this process was stopped, and that no bookie is at fault."""


class BookieConnection(asyncio.Protocol):
    """One connection. When it ends, everything pending on it ends with `lost`'s error, once."""

    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int) -> None:
        self.bookie_id = bookie_id
        self.lost: Exception | None = None
        """Why the connection is unusable; None while it is alive."""
        self._send_queue_bytes_max = send_queue_bytes_max
        self._transport: asyncio.Transport | None = None
        self._unwritten: list[bytes] = []
        """Sent in this turn of the loop; they leave in one write at its end."""
        self._allowed = self._sendable = 0
        """What may be unsent, and what that leaves next to them and what the transport held when this turn began."""
        self._written = 0
        """Bytes given to the transport so far."""
        self._timeout_of_unwritten_s = math.inf
        """The shortest that one of them has."""
        self._loop = asyncio.get_running_loop()
        self._due = math.inf
        """Loop time by which something must be received; infinite while no request is pending."""
        self._timeout_s = 0.0
        """The timeout by which `_due` was set."""
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._loop.time()
        self._timer_at = math.inf
        """Never later than `_due`. The timer is left to run when something comes, for the requests after that."""
        self._resumes = False
        """Whether some of what was received is left to the next turn of the loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not its subclasses
        # We bound the queue ourselves (see `send`); the transport's own flow control is not used.
        self._transport.set_write_buffer_limits(high=self._send_queue_bytes_max)

    def send(self, data: bytes, timeout_s: float) -> None:
        """Queue requests, of which one is to be answered within `timeout_s`. They leave as this turn of the loop ends.

        A bookie with more unsent bytes than the limit is given up: it must not fill memory. What no bookie is done with
        does not count: the buffers of its writers bound it, and it is no sign that this bookie is slower than others.
        """
        unwritten = self._unwritten
        if not unwritten:
            if self.lost is not None or self._transport is None:
                return
            self._allowed = self._send_queue_bytes_max
            self._sendable = self._allowed - self._transport.get_write_buffer_size()
            self._loop.call_soon(self._write)
        if self._sendable < 0:
            self._allow_unacknowledged()
            if self._sendable < 0:
                self.give_up(
                    f"bookie {self.bookie_id} has yet to take {self._allowed - self._sendable} bytes, more than "
                    f"{self._send_queue_bytes_max} of them acknowledged by others; it hangs or is overloaded"
                )
                return
        unwritten.append(data)
        self._sendable -= len(data)
        if timeout_s < self._timeout_of_unwritten_s:
            self._timeout_of_unwritten_s = timeout_s

    def _allow_unacknowledged(self) -> None:
        more = self._send_queue_bytes_max + self._unacknowledged_bytes() - self._allowed
        self._allowed += more
        self._sendable += more

    def _write(self) -> None:
        """Write what was sent in the last turn: a write for each handle would cost more than encoding its frames."""
        unwritten, self._unwritten = self._unwritten, []
        timeout_s, self._timeout_of_unwritten_s = self._timeout_of_unwritten_s, math.inf
        if self.lost is not None or self._transport is None:
            return
        size = sum(map(len, unwritten))
        self._written += size
        if size <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join(unwritten))
        else:
            for data in unwritten:
                self._transport.write(data)
        self.expect(timeout_s)

    def expect(self, timeout_s: float) -> None:
        """An answer is owed: if nothing is received within the time, the peer counts as lost."""
        due = self._loop.time() + timeout_s
        if due < self._due and self.lost is None:
            self._due, self._timeout_s = due, timeout_s
            if due < self._timer_at:
                self._check_at(due)

    def _check_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(moment, self._check_silence), moment

    def _check_silence(self) -> None:
        now = self._loop.time()
        late_s = now - self._timer_at
        self._timer, self._timer_at = None, math.inf
        if late_s > _PAUSE_S:
            self._due = max(self._due, now + self._timeout_s)  # what arrived since may still be unread
        if self._due <= now:
            self.give_up(f"bookie {self.bookie_id} did not respond within {self._timeout_s:g} s")
        elif self._due < math.inf:
            self._check_at(self._due)

    @property
    def written(self) -> int:
        """Bytes given to the transport so far."""
        return self._written

    @property
    def left(self) -> int:
        """Those of them that the transport holds no more."""
        return self._written - (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def heard_since(self, moment: float) -> bool:
        """Whether anything was received after this loop time."""
        return self._heard_at > moment

    def is_stale(self, idle_s: float) -> bool:
        """Unused and silent for so long that the bookie's host may have died unnoticed."""
        return self._loop.time() - self._heard_at > idle_s and not self._in_use()

    def give_up(self, reason: str) -> None:
        """End the connection now, without waiting for the peer."""
        self._end(BookieUnavailableError(reason, bookie_id=self.bookie_id))
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._due = math.inf  # it is alive; callers that wait for an answer have their own timeouts
        self._handle(data)

    def _resume_soon(self) -> None:
        """Call `_on_data`, with nothing new, in the next turn of the loop."""
        if not self._resumes:
            self._resumes = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resumes = False
        if self.lost is None:
            self._handle(b"")

    def _handle(self, data: bytes) -> None:
        try:
            self._on_data(data)
        except ProtocolError as error:
            self.give_up(f"bookie {self.bookie_id} broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        error = BookieUnavailableError(
            f"connection to bookie {self.bookie_id} was lost ({exc or 'closed by the bookie'})",
            bookie_id=self.bookie_id,
        )
        error.__cause__ = exc
        self._end(error)

    def _end(self, error: Exception) -> None:
        if self.lost is None:
            self.lost = error
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._on_lost(error)

    @abstractmethod
    def _on_data(self, data: bytes) -> None:
        """Take what was received. ProtocolError ends the connection."""

    @abstractmethod
    def _unacknowledged_bytes(self) -> int:
        """Bytes of the adds sent here that are not acknowledged to their writers yet."""

    @abstractmethod
    def _in_use(self) -> bool:
        """Whether an answer is owed, or a listener is attached."""

    @abstractmethod
    def _on_lost(self, error: Exception) -> None:
        """Report the loss to every caller that waits on this connection."""
