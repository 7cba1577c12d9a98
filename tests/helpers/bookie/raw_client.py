"""A client that knows nothing but frames: it sends bytes, and says what came back and whether the bookie hung up."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

PATIENCE_S = 10.0


class ConnectionClosed(Exception):
    """The bookie closed the connection, cleanly or with a reset."""


class RawClient:
    """One blocking TCP connection to a bookie."""

    def __init__(self, port: int, host: str = "127.0.0.1", *, source: str | None = None) -> None:
        """`source`: the address it comes from; any of 127.0.0.0/8 will do on Linux."""
        self._socket = socket.create_connection(
            (host, port), timeout=PATIENCE_S, source_address=None if source is None else (source, 0)
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frame(self) -> bytes:
        """The next whole frame with its prefix; ConnectionClosed if there is none any more."""
        prefix = self._exactly(4)
        return prefix + self._exactly(int.from_bytes(prefix, "big"))

    def ask(self, frame: bytes) -> bytes:
        """Send one frame and wait for one answer."""
        self.send(frame)
        return self.frame()

    def expect_close(self) -> None:
        """Fail unless the bookie closes without saying anything more."""
        try:
            extra = self._socket.recv(1)
        except ConnectionError:
            return
        assert not extra, f"expected the connection to close, got {extra!r}"

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except ConnectionError as error:
                raise ConnectionClosed from error
            if not part:
                raise ConnectionClosed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
