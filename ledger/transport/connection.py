"""What both protocols share: one TCP connection to one bookie, its life and its bounds.

Law: whatever is sent asks for an answer. A connection on which nothing at all comes within the time of a request
is given up, whoever sent it. A peer that has vanished is never reported by the kernel before a quarter of an hour
of resending is over, and only a new connection finds a bookie that is back. Whoever waits for an answer keeps a
timeout of its own: a bookie that says something else meanwhile lives, and may still not answer.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from typing import cast

from ledger.errors import BookieUnavailableError, ProtocolError
from ledger.model import BookieId

_PAUSE_S = 1.0
"""A timer that comes so much too late shows that this process was stopped, and that no bookie is to blame."""


class BookieConnection(asyncio.Protocol):
    """One connection. When it ends, everything pending on it ends with `lost`'s error, once."""

    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int) -> None:
        self.bookie_id = bookie_id
        self.lost: Exception | None = None
        """Why the connection is unusable; None while it is alive."""
        self._send_queue_bytes_max = send_queue_bytes_max
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._due = math.inf
        """Loop time by which something has to come; infinite while nothing that was sent waits for a first word."""
        self._patience_s = 0.0
        """The timeout by which `_due` was set."""
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._loop.time()
        self._timer_at = math.inf
        """Never later than `_due`. The timer is left to run when something comes, for the requests after that."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not its subclasses
        # We bound the queue ourselves (see `send`); the transport's own flow control is not used.
        self._transport.set_write_buffer_limits(high=self._send_queue_bytes_max)

    def send(self, data: bytes, timeout_s: float) -> None:
        """Queue requests, of which one is to be answered within `timeout_s`.

        A bookie that lets more than the bound pile up is given up: it must not fill memory.
        """
        transport = self._transport
        if self.lost is not None or transport is None:
            return
        if transport.get_write_buffer_size() > self._send_queue_bytes_max:
            self.give_up(
                f"bookie {self.bookie_id} took none of {self._send_queue_bytes_max} bytes sent to it; "
                "it hangs or is overloaded"
            )
            return
        transport.write(data)
        self.expect(timeout_s)

    def expect(self, timeout_s: float) -> None:
        """Something is owed here: if nothing comes for so long, the peer has gone."""
        due = self._loop.time() + timeout_s
        if due < self._due and self.lost is None:
            self._due, self._patience_s = due, timeout_s
            if due < self._timer_at:
                self._look_at(due)

    def _look_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(moment, self._look_for_silence), moment

    def _look_for_silence(self) -> None:
        now = self._loop.time()
        late_s = now - self._timer_at
        self._timer, self._timer_at = None, math.inf
        if late_s > _PAUSE_S:
            self._due = max(self._due, now + self._patience_s)  # what came meanwhile may still be unread
        if self._due <= now:
            self.give_up(f"bookie {self.bookie_id} did not respond within {self._patience_s:g} s")
        elif self._due < math.inf:
            self._look_at(self._due)

    def is_stale(self, idle_s: float) -> bool:
        """Nobody uses it, and the bookie said nothing for so long: its host may have gone unnoticed."""
        return self._loop.time() - self._heard_at > idle_s and not self._in_use()

    def give_up(self, reason: str) -> None:
        """End the connection now; the peer is not waited for."""
        self._end(BookieUnavailableError(reason, bookie_id=self.bookie_id))
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._due = math.inf  # it lives; what is owed on is for those to miss who wait for it
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
    def _in_use(self) -> bool:
        """Whether an answer is owed here, or somebody listens."""

    @abstractmethod
    def _on_lost(self, error: Exception) -> None:
        """Tell everybody who waits on this connection."""
