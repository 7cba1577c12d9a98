"""One end of a simulated connection, with the behaviour of asyncio's socket transport.

What a kernel does and asyncio's users can feel is kept: closing with unread bytes resets the connection, bytes for
a closed socket are answered by a reset, an end that died leaves bytes on their way.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

from dlog.testing.kernel.nodes import Node, context_of
from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.network.pipes import READ_BYTES_MAX, End, Pipe

if TYPE_CHECKING:
    from dlog.testing.network.wiretap import Direction

HIGH_WATER_BYTES = 64 * 1024
"""asyncio's default."""


class SimulatedSocket:
    """What a program may ask of the socket under a transport or a server."""

    def __init__(self, own: tuple[str, int], peer: tuple[str, int] | None = None) -> None:
        self._own = own
        self._peer = peer

    def getsockname(self) -> tuple[str, int]:
        return self._own

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._peer

    def fileno(self) -> int:
        """None: no kernel knows it."""
        return -1

    def setsockopt(self, *options: object) -> None:
        """Accepted; a simulated network has nothing to tune."""


class BothEnds(Protocol):
    """The connection of which a transport is one end."""

    def end_closed(self, end: SimulatedTransport) -> None: ...


class Acceptor(Protocol):
    """The server that took the connection, and counts those it has."""

    def attached(self) -> None: ...
    def detached(self) -> None: ...


class SimulatedTransport(asyncio.Transport):
    """Made when the kernels have shaken hands; its protocol is attached when the program takes it."""

    connection: BothEnds

    def __init__(self, loop: Scheduler, node: Node, into: Pipe, out: Pipe) -> None:
        super().__init__()
        self.node = node
        self.context = context_of(node)
        self.server: Acceptor | None = None
        self._loop = loop
        self._into = into
        self._out = out
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffered_protocol: asyncio.BufferedProtocol | None = None
        self._own = self._peer = ("", 0)
        self._reading = False
        """Whether what arrives is handed over: attached, not paused, not closing."""
        self._paused = False
        self._closing = False
        self._conn_lost = False
        """Nothing more is sent; connection_lost has been or will be called."""
        self._socket_closed = False
        self._eof = False
        self._buffer: deque[bytes] = deque()
        self._buffer_bytes = 0
        self._high_bytes, self._low_bytes = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._protocol_paused = False
        self._sent: Direction | None = None
        self._received: Direction | None = None
        self.on_sent: Callable[[bytes], None] | None = None
        """Called with what the program sends, with or without a timeline."""

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self._own} to {self._peer}>"

    # ---- life

    def name(self, own: tuple[str, int], peer: tuple[str, int]) -> None:
        """The addresses of both ends."""
        self._own, self._peer = own, peer

    def attach(self, protocol: asyncio.BaseProtocol, server: Acceptor | None = None) -> None:
        """Hand the connection to the program: connection_made, then what arrives."""
        self.server = server
        self.set_protocol(protocol)
        if server is not None:
            server.attached()
        self._loop.call_soon(protocol.connection_made, self, context=self.context)
        self._loop.call_soon(self._start_reading, context=self.context)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._reading = False
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        self._force_close(None)

    def is_closing(self) -> bool:
        return self._closing

    def kernel_close(self, *, reset: bool = False) -> None:
        """The process is dead, or never accepted the connection: the kernel ends it."""
        self._closing = self._conn_lost = True
        self._reading = False
        self._buffer.clear()
        self._buffer_bytes = 0
        self._close_socket(reset)

    def host_lost(self) -> None:
        """The process is dead and its host powered off: no peer is notified."""
        self._closing = self._conn_lost = self._socket_closed = True
        self._reading = False
        self._into.host_lost()
        self.connection.end_closed(self)

    @property
    def incoming(self) -> Pipe:
        """What comes to this end."""
        return self._into

    # ---- for the timeline

    def listen_in(self, sent: Direction, received: Direction) -> None:
        """Let these see what the programs at both ends say to each other."""
        self._sent, self._received = sent, received

    def _log_sent(self, data: bytes) -> None:
        self._loop.trace.detail("sent", self.node.label, f"{len(data)} bytes on {self.connection}")
        if self._sent is not None:
            self._sent.sent(data)

    def _log_received(self, data: bytes) -> None:
        self._loop.trace.detail("received", self.node.label, f"{len(data)} bytes on {self.connection}")
        if self._received is not None:
            self._received.received(data)

    def _force_close(self, error: Exception | None) -> None:
        if self._conn_lost:
            return
        self._buffer.clear()
        self._buffer_bytes = 0
        self._closing = True
        self._reading = False
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._conn_lost = True
        self._loop.call_soon(self._call_connection_lost, error, context=self.context)

    def _call_connection_lost(self, error: Exception | None) -> None:
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self._close_socket(reset=False)
            self._protocol = self._buffered_protocol = None
            if self.server is not None:
                self.server.detached()
                self.server = None

    def _close_socket(self, reset: bool) -> None:
        if self._socket_closed:
            return
        self._socket_closed = True
        reset_by_peer = self._into.reset_at <= self._loop.now
        if self._into.close_receiver() or reset:
            self._out.reset()
        elif not reset_by_peer:
            self._out.finish()
        self.connection.end_closed(self)

    @property
    def socket_closed(self) -> bool:
        return self._socket_closed

    # ---- receiving

    def _start_reading(self) -> None:
        if not self._closing and not self._paused:
            self._reading = True
            self.arrived()

    def is_reading(self) -> bool:
        return not self._closing and not self._paused

    def pause_reading(self) -> None:
        self._paused = True
        self._reading = False

    def resume_reading(self) -> None:
        if self._closing or not self._paused:
            return
        self._paused = False
        self._loop.call_soon(self._start_reading, context=self.context)

    def arrived(self) -> None:
        """Something may be there to read."""
        now, into = self._loop.now, self._into
        if not self._reading:
            if self._buffer and into.reset_at <= now:
                self._connection_reset()  # as the next attempt to send would find
            return
        if not into.has_arrived(now):
            return
        target = self._buffered_protocol
        item = into.take(now, READ_BYTES_MAX) if target is None else self._read_into(target, now)
        if item is End.FIN:
            self._end_of_stream()
        elif item is End.RESET:
            self._connection_reset()
        elif target is None:
            self._data_received(cast(bytes, item))
        if self._reading and into.has_arrived(now):
            self._loop.call_soon(self.arrived, context=self.context)

    def _connection_reset(self) -> None:
        self._force_close(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def timed_out(self) -> None:
        """The kernel has sent again for long enough."""
        self._force_close(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _data_received(self, data: bytes) -> None:
        if self._loop.trace.with_events:
            self._log_received(data)
        try:
            cast(asyncio.Protocol, self._protocol).data_received(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the protocol's, whatever it is; as asyncio's own
            self._fatal(error, "protocol.data_received() call failed.")

    def _read_into(self, protocol: asyncio.BufferedProtocol, now: float) -> bytes | End | None:
        """One read into the protocol's own buffer."""
        item: bytes | End | None = None
        try:
            buffer = memoryview(cast(Any, protocol.get_buffer(-1)))
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            item = self._into.take(now, len(buffer))
            if isinstance(item, bytes):
                if self._loop.trace.with_events:
                    self._log_received(item)
                buffer[: len(item)] = item
                protocol.buffer_updated(len(item))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the protocol's, whatever it is; as asyncio's own
            self._fatal(error, "protocol.get_buffer() or buffer_updated() call failed.")
        return item

    def _end_of_stream(self) -> None:
        try:
            keep_open = cast(asyncio.Protocol, self._protocol).eof_received()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the protocol's, whatever it is; as asyncio's own
            self._fatal(error, "protocol.eof_received() call failed.")
            return
        if not keep_open:
            self.close()

    def _fatal(self, error: BaseException, message: str) -> None:
        if self.node.alive:
            self._loop.call_exception_handler(
                {
                    "message": f"Fatal error: {message}",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )
        self._force_close(error if isinstance(error, Exception) else None)

    # ---- sending

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._conn_lost:
            return
        out, data = self._out, bytes(data)
        if self._into.reset_at <= self._loop.now:
            self._connection_reset()
            return
        if self._loop.trace.with_events:
            self._log_sent(data)
        if self.on_sent is not None:
            self.on_sent(data)
        if not self._buffer:
            room = out.room_bytes
            if len(data) <= room:
                out.push(data)
                return
            if room > 0:
                out.push(data[:room])
                data = data[room:]
        self._buffer.append(data)
        self._buffer_bytes += len(data)
        self._pause_protocol_if_full()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._eof:
            return
        self._eof = True
        if not self._buffer:
            self._out.finish()

    @property
    def wants_room(self) -> bool:
        """Whether bytes wait here for the pipe's window."""
        return bool(self._buffer)

    def room_made(self) -> None:
        """The peer has taken bytes: send more."""
        buffer, out = self._buffer, self._out
        while buffer and (room := out.room_bytes) > 0:
            data = buffer.popleft()
            if len(data) > room:
                buffer.appendleft(data[room:])
                data = data[:room]
            self._buffer_bytes -= len(data)
            out.push(data)
        if self._conn_lost:
            return
        self._resume_protocol_if_drained()
        if buffer or self._conn_lost:
            return
        if self._closing:
            self._lose(None)
        elif self._eof:
            out.finish()

    # ---- flow control

    def get_write_buffer_size(self) -> int:
        return self._buffer_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low
        self._pause_protocol_if_full()

    def _pause_protocol_if_full(self) -> None:
        if self._buffer_bytes > self._high_bytes and not self._protocol_paused:
            self._protocol_paused = True
            self._call_protocol("pause_writing")

    def _resume_protocol_if_drained(self) -> None:
        if self._protocol_paused and self._buffer_bytes <= self._low_bytes:
            self._protocol_paused = False
            self._call_protocol("resume_writing")

    def _call_protocol(self, method: str) -> None:
        try:
            getattr(self._protocol, method)()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the protocol's, whatever it is; as asyncio's own
            self._loop.call_exception_handler(
                {
                    "message": f"protocol.{method}() failed",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )

    # ---- what programs ask

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._buffered_protocol = protocol if isinstance(protocol, asyncio.BufferedProtocol) else None

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._peer
        if name == "sockname":
            return self._own
        if name == "socket":
            return SimulatedSocket(self._own, self._peer)
        return default
