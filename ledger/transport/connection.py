"""What both protocols share: one TCP connection to one bookie, its life and its bounds."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import cast

from ledger.errors import BookieUnavailableError, ProtocolError
from ledger.model import BookieId


class BookieConnection(asyncio.Protocol):
    """One connection. When it ends, everything pending on it ends with `lost`'s error, once."""

    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int) -> None:
        self.bookie_id = bookie_id
        self.lost: Exception | None = None
        """Why the connection is unusable; None while it is alive."""
        self.heard_at = 0.0
        """Loop time at which bytes last came, at first that of the connect."""
        self._send_queue_bytes_max = send_queue_bytes_max
        self._transport: asyncio.Transport | None = None
        self._now = asyncio.get_running_loop().time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not its subclasses
        self.heard_at = self._now()
        # We bound the queue ourselves (see `send`); the transport's own flow control is not used.
        self._transport.set_write_buffer_limits(high=self._send_queue_bytes_max)

    def send(self, data: bytes) -> None:
        """Queue bytes. A bookie that lets more than the bound pile up is given up: it must not fill memory."""
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

    def give_up(self, reason: str) -> None:
        """End the connection now; the peer is not waited for."""
        self._end(BookieUnavailableError(reason, bookie_id=self.bookie_id))
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._now()
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
            self._on_lost(error)

    @abstractmethod
    def _on_data(self, data: bytes) -> None:
        """Take what was received. ProtocolError ends the connection."""

    @abstractmethod
    def _on_lost(self, error: Exception) -> None:
        """Tell everybody who waits on this connection."""
