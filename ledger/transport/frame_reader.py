"""A byte stream cut at frame borders, whole blocks at a time: for adds, whose answers come by the thousand. Pure.

A frame is a four-byte big-endian length and that many bytes (docs/bookkeeper.md#frames). A length above the
limit is refused before anything is kept; a large frame that arrives in pieces is copied once, when complete.
"""

from __future__ import annotations

from ledger.errors import ProtocolError


class FrameReader:
    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 0

    def keep(self, data: bytes, start: int) -> None:
        """Keep the rest of what `feed` has returned, from a frame border on: the next `feed` begins with it."""
        self._chunks.append(data[start:])
        self._held, self._needed = len(data) - start, 0

    def feed(self, data: bytes) -> bytes:
        """Take what was received; return bytes that begin with a frame border (or nothing, if none is whole)."""
        if not self._held:
            return data
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return b""
        whole = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        return whole

    def frame_end(self, data: bytes, start: int) -> int:
        """Where the frame at `start` ends; 0 if it is not whole, and then the rest is kept for later."""
        available = len(data) - start
        if not available:
            return 0  # `feed` may have returned nothing because it holds a part of a frame, whose size stays known
        if available >= 4:
            size = 4 + int.from_bytes(data[start : start + 4], "big")
            if size > self._frame_bytes_max or size == 4:
                raise ProtocolError(
                    f"frame of {size} bytes is outside the limit of 5 to {self._frame_bytes_max}; "
                    "the peer does not speak this protocol, or speaks it in TLS only"
                )
            if size <= available:
                return start + size
            self._needed = size
        else:
            self._needed = 4
        self._chunks.append(data[start:])
        self._held = available
        return 0
