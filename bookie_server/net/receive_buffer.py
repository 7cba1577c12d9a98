"""Bytes of all connections on their way to complete frames. Pure.

All sockets read into one shared space. Complete frames leave it as one block of bytes; only what follows the last
complete frame stays with its connection. A frame that needs more reads than that grows in a buffer of its own.

Invariant: memory follows what peers have really sent (twice that at most), never what a length field promises.
Incomplete frames of which more than SMALL_BYTES have come share one budget: each takes a place for all of it, or its
connection is not read until there is one. So a frame that has its place can always be completed, and frames never
wait for each other in a circle. Every byte is moved a bounded number of times, however many pieces a frame comes in.

Pitfall: docs/pitfalls.md#lying-length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from struct import Struct

from ledger.errors import ProtocolError

LENGTH = Struct(">I")
SPACE_BYTES = 256 * 1024
"""Maximum size of one read from a socket."""
SMALL_BYTES = 32 * 1024
"""What a connection may hold of an incomplete frame whatever others hold. Requests other than large adds fit."""
_PIECE_BYTES_MIN = 4 * 1024


class ReceiveBudget:
    """What the connections of a bookie share: the space to read into, and what large frames may hold together."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: at least that of the largest frame."""
        self.space = memoryview(bytearray(SPACE_BYTES))
        self.taken_bytes = 0
        """Of the frames that have a place."""
        self._bytes_max = bytes_max
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[ReceiveBuffer, int] = {}

    @property
    def exhausted(self) -> bool:
        """Whether a frame waits for others to give up their places."""
        return bool(self._waiting)

    def take(self, buffer: ReceiveBuffer, frame_bytes: int) -> bool:
        """A place for a whole frame. If there is none now, the buffer's `grant` is called when there is."""
        if self._waiting or self.taken_bytes + frame_bytes > self._bytes_max:
            self._waiting[buffer] = frame_bytes
            return False
        self._charge(buffer, frame_bytes)
        return True

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """The frame is complete, or its connection closed."""
        self._waiting.pop(buffer, None)
        self.taken_bytes -= buffer.taken_bytes
        self._by_address[buffer.address] -= buffer.taken_bytes
        if not self._by_address[buffer.address]:
            del self._by_address[buffer.address]
        buffer.taken_bytes = 0
        while self._waiting:
            following = self._following()
            if self.taken_bytes + self._waiting[following] > self._bytes_max:
                return
            self._charge(following, self._waiting.pop(following))
            following.grant()

    def _following(self) -> ReceiveBuffer:
        """Of the address that holds least, who waits longest: one host with many peers does not keep others out."""
        return min(self._waiting, key=lambda each: self._by_address[each.address])

    def _charge(self, buffer: ReceiveBuffer, frame_bytes: int) -> None:
        self.taken_bytes += frame_bytes
        self._by_address[buffer.address] += frame_bytes
        buffer.taken_bytes = frame_bytes


class ReceiveBuffer:
    """One connection: `space()` is read into, `received()` counts it, `block()` takes it out, `keep()` leaves the rest.

    Between `space()` and `block()` no other connection may read, since they share the space.
    """

    __slots__ = (
        "_budget",
        "_filled",
        "_frame_bytes_max",
        "_on_place",
        "_own",
        "_part",
        "address",
        "taken_bytes",
        "waits",
    )

    def __init__(self, budget: ReceiveBudget, frame_bytes_max: int, on_place: Callable[[], None]) -> None:
        self.address = ""
        """Of the peer."""
        self.taken_bytes = 0
        """Of the budget, for its present frame."""
        self.waits = False
        """Nothing more may be read until `on_place` is called."""
        self._budget = budget
        self._frame_bytes_max = frame_bytes_max
        self._on_place = on_place
        self._filled = 0
        self._part = b""
        self._own: memoryview | None = None

    @property
    def partial_bytes(self) -> int:
        """Bytes received of a frame that is not complete yet."""
        return self._filled

    def space(self) -> memoryview:
        """Where the next bytes go; never empty, unless it `waits`."""
        if self._own is not None:
            return self._own[self._filled :]
        space, filled = self._budget.space, self._filled
        if filled:
            space[:filled] = self._part
        if self._budget.exhausted and not self.taken_bytes:
            return space[filled : max(SMALL_BYTES, filled + _PIECE_BYTES_MIN)]
        return space[filled:]

    def received(self, byte_count: int) -> None:
        self._filled += byte_count

    def block(self) -> bytes | None:
        """All received bytes if they begin with a complete frame, else None, and what has come is kept.

        ProtocolError for a length over the limit; a negative one is a large unsigned one.
        """
        filled = self._filled
        received = self._budget.space if self._own is None else self._own
        if filled < LENGTH.size:
            self._part = bytes(received[:filled])
            return None
        (length,) = LENGTH.unpack_from(received)
        frame_bytes = LENGTH.size + length
        if frame_bytes > self._frame_bytes_max:
            raise ProtocolError(
                f"the peer announced a frame of {frame_bytes} bytes, the limit is {self._frame_bytes_max}"
            )
        if filled >= frame_bytes:
            return bytes(received[:filled])
        if self._own is None:
            in_pieces = bool(self._part)
            self._part = bytes(received[:filled])
            self._hold_part(frame_bytes, in_pieces=in_pieces)
        elif filled == len(self._own):
            self._enlarge(frame_bytes)
        return None

    def keep(self, block: bytes, consumed: int) -> None:
        """`consumed` bytes of the block just taken are done; the rest starts the next one."""
        self._own = None
        self._part = block[consumed:]
        self._filled = len(self._part)
        if self.taken_bytes:
            self._budget.give_back(self)
        if self._filled > SMALL_BYTES:
            self._hold_part(LENGTH.size + LENGTH.unpack_from(self._part)[0], in_pieces=False)

    def close(self) -> None:
        """The connection is closed: nothing is held any more."""
        self._own, self._part, self._filled = None, b"", 0
        self._budget.give_back(self)

    def grant(self) -> None:
        """The present frame has its place."""
        self.waits = False
        if self.taken_bytes > SPACE_BYTES:
            self._enlarge(self.taken_bytes)
        self._on_place()

    # ---- frames that are not small

    def _hold_part(self, frame_bytes: int, *, in_pieces: bool) -> None:
        """A part stays as it is while the rest may come with the next read, which begins after it."""
        if self._filled <= SMALL_BYTES:
            return
        if not self.taken_bytes and not self._budget.take(self, frame_bytes):
            self.waits = True
        elif in_pieces or frame_bytes > SPACE_BYTES:
            self._enlarge(frame_bytes)

    def _enlarge(self, frame_bytes: int) -> None:
        larger = memoryview(bytearray(min(frame_bytes, 2 * self._filled)))
        larger[: self._filled] = self._part if self._own is None else self._own
        self._own, self._part = larger, b""


def frame_end(block: bytes, position: int, frame_bytes_max: int) -> int | None:
    """Where the frame at `position` ends, None while it is incomplete. Raises ProtocolError if it is too long."""
    if len(block) - position < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(block, position)
    if LENGTH.size + length > frame_bytes_max:
        raise ProtocolError(
            f"the peer announced a frame of {LENGTH.size + length} bytes, the limit is {frame_bytes_max}"
        )
    stop: int = position + LENGTH.size + length
    return stop if stop <= len(block) else None
