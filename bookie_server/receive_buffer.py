"""Bytes of one connection on their way to complete frames. Pure.

The socket reads straight into the buffer; once the first frame is complete, everything received is taken out
as one block of bytes, and what follows the last complete frame stays.

Law: memory follows what the peer has really sent (twice that at most), never what a length field promises;
and every byte is moved a bounded number of times, however many pieces a frame arrives in.
"""

from __future__ import annotations

from struct import Struct

from ledger.errors import ProtocolError

LENGTH = Struct(">I")
FIRST_BYTES = 16 * 1024
STEADY_BYTES = 256 * 1024
"""A busy connection reads so much at once; beyond it the buffer grows only for one large frame."""
SPACE_BYTES_MIN = 4 * 1024


class ReceiveBuffer:
    """`space()` is read into, `received()` counts it, `block()` takes it out, `keep()` leaves the rest."""

    __slots__ = ("_buffer", "_filled", "_frame_bytes_max", "_view")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._filled = 0
        self._buffer = bytearray(FIRST_BYTES)
        self._view = memoryview(self._buffer)

    @property
    def partial_bytes(self) -> int:
        """Bytes received of a frame that is not complete yet."""
        return self._filled

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if len(self._buffer) - self._filled < SPACE_BYTES_MIN:
            self._allocate(2 * len(self._buffer))
        return self._view[self._filled :]

    def received(self, byte_count: int) -> None:
        self._filled += byte_count

    def block(self) -> bytes | None:
        """All received bytes if they begin with a complete frame, else None.

        ProtocolError for a length over the limit; a negative one is a large unsigned one.
        """
        if self._filled < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._buffer)
        frame_bytes = LENGTH.size + length
        if frame_bytes > self._frame_bytes_max:
            raise ProtocolError(
                f"the peer announced a frame of {frame_bytes} bytes, the limit is {self._frame_bytes_max}"
            )
        if self._filled < frame_bytes:
            return None
        return bytes(self._view[: self._filled])

    def keep(self, block: bytes, consumed: int) -> None:
        """`consumed` bytes of the block just taken are done; the rest starts the next one."""
        rest = len(block) - consumed
        full = self._filled == len(self._buffer)
        if len(self._buffer) > STEADY_BYTES >= 2 * rest:
            self._filled = 0
            self._allocate(STEADY_BYTES)
        elif full and len(self._buffer) < STEADY_BYTES:
            self._filled = 0
            self._allocate(2 * len(self._buffer))
        if rest:
            self._view[:rest] = memoryview(block)[consumed:]
        self._filled = rest

    def _allocate(self, size: int) -> None:
        buffer = bytearray(size)
        if self._filled:
            buffer[: self._filled] = self._view[: self._filled]
        self._buffer = buffer
        self._view = memoryview(buffer)
