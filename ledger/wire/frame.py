"""Frames of both protocols: a 4-byte big-endian length and so many bytes of body. Pure.

Invariant: the length is judged as soon as its four bytes are there, before anything of that size is kept.
The limit counts the whole frame, prefix included (docs/bookkeeper.md#frames; docs/pitfalls.md#lying-length).
"""

from struct import Struct

from ledger.errors import ProtocolError
from ledger.model import FRAME_BYTES_MAX

LENGTH = Struct(">I")
LENGTH_BYTES = LENGTH.size


def frame(body: bytes) -> bytes:
    """`body` with its length in front."""
    return LENGTH.pack(len(body)) + body


def check_length(body_bytes: int, frame_bytes_max: int) -> None:
    """Raise ProtocolError unless a frame with a body of `body_bytes` fits the limit.

    A negative length reads as one above 2 GiB, so it is refused here too.
    """
    if body_bytes + LENGTH_BYTES > frame_bytes_max:
        raise ProtocolError(
            f"a frame of {body_bytes + LENGTH_BYTES} bytes was announced and {frame_bytes_max} is the limit; "
            f"send smaller entries or raise the limit on both sides",
            frame_bytes=body_bytes + LENGTH_BYTES,
            frame_bytes_max=frame_bytes_max,
        )


class FrameSplitter:
    """Cuts a byte stream into frame bodies. After a ProtocolError the stream has no boundaries: close it."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._partial = bytearray()
        self._needed = LENGTH_BYTES

    @property
    def partial_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[memoryview]:
        """The bodies completed by `data`, in order, as slices of one immutable buffer."""
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return []
            # Joined at most twice a frame (when its length and when its end arrive), so cost stays linear.
            data = bytes(self._partial)
            self._partial = bytearray()
        return self._split(memoryview(data))

    def _split(self, view: memoryview) -> list[memoryview]:
        bodies: list[memoryview] = []
        start, end = 0, len(view)
        self._needed = LENGTH_BYTES
        while end - start >= LENGTH_BYTES:
            (body_bytes,) = LENGTH.unpack_from(view, start)
            check_length(body_bytes, self._frame_bytes_max)
            next_start = start + LENGTH_BYTES + body_bytes
            if next_start > end:
                self._needed = next_start - start
                break
            bodies.append(view[start + LENGTH_BYTES : next_start])
            start = next_start
        self._partial += view[start:]
        return bodies
