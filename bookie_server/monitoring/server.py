"""Serves pages over HTTP in the running event loop: one request a connection, GET and HEAD.

Invariant: whatever peers do, they take no more than CONNECTIONS_MAX descriptors, the backlog's and a head each, for no
longer than HEAD_S and RESPONSE_S. No request is logged, and a body is never read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from bookie_server.monitoring.request import Request, RequestHead
from bookie_server.monitoring.response import Response, encode_response, refusal
from bookie_server.net.listener import ListenerOptions, bind, claim

HEAD_S = 5.0
"""Within which a peer must have sent the head of its request, however slowly."""
RESPONSE_S = 5.0
"""Within which it must have taken the response and closed the connection."""
DROPPED_BYTES_MAX = 1024 * 1024
"""What is read of a peer after its request; the rest stays in the kernel, which stops the peer."""
CONNECTIONS_MAX = 8
"""A few scrapers and people. One more ends the oldest: peers that ask for nothing must not keep a supervisor out."""
BACKLOG = 8
"""As many may be accepted in one step, before the oldest ones are closed."""
OPTIONS = ListenerOptions("--http-host", "another --http-port")

Answer = Callable[[Request], Response]
"""What a request gets; must not block."""


class MonitoringServer:
    """Serves from `open` to `close`."""

    def __init__(self, answer: Answer) -> None:
        """Not for callers: see `open`."""
        self.answer = answer
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._open: dict[_Connection, None] = {}
        """The oldest first."""

    @classmethod
    async def open(cls, host: str, port: int, answer: Answer) -> MonitoringServer:
        """Listen; port 0 is a free one, which `port` of the result names.

        Raises:
            PortTakenError: the port is in use.
            ConfigurationError: the host is not one of this machine.
        """
        server = cls(answer)
        listener = server._listener = await bind(host, port, server._accept, OPTIONS, backlog=BACKLOG)
        try:
            claim(listener, host, port, OPTIONS, backlog=BACKLOG)
            await listener.start_serving()
        except BaseException:
            await server.close()
            raise
        server.port = int(listener.sockets[0].getsockname()[1])
        return server

    async def close(self) -> None:
        """Close the socket and all connections."""
        assert self._listener is not None, "`open` makes it"
        self._listener.close()
        for each in list(self._open):
            each.abort()
        await self._listener.wait_closed()

    def _accept(self) -> asyncio.BaseProtocol:
        return _Connection(self)

    def admit(self, connection: _Connection) -> None:
        """Serve it; in place of the oldest one if there are as many as may be."""
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[connection] = None

    def ended(self, connection: _Connection) -> None:
        self._open.pop(connection, None)


class _Connection(asyncio.Protocol):
    def __init__(self, server: MonitoringServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._head = RequestHead()
        self._is_answered = False
        self._dropped = 0
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.admit(self)
        self._deadline = self._loop.call_later(HEAD_S, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            self._drop(len(data))
            return
        found = self._head.feed(data)
        if isinstance(found, Request):
            self._send(encode_response(self._server.answer(found), with_body=found.method != "HEAD"))
        elif found is not None:
            self._send(encode_response(refusal(found)))

    def eof_received(self) -> bool:
        """A peer may half-close after its request; before that it wants nothing."""
        if not self._is_answered:
            self.abort()
        return False  # the transport sends what is left, and closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.ended(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _drop(self, count: int) -> None:
        """What follows the request: read until the peer closes, since a reset could take the response from it."""
        assert self._transport is not None, "bytes come after the connection"
        self._dropped += count
        if self._dropped > DROPPED_BYTES_MAX:
            self._transport.pause_reading()

    def _too_slow(self) -> None:
        if self._head.is_empty:
            self.abort()
        else:
            self._send(encode_response(refusal(HTTPStatus.REQUEST_TIMEOUT)))

    def _send(self, response: bytes) -> None:
        assert self._transport is not None, "bytes come after the connection"
        self._is_answered = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(RESPONSE_S, self.abort)
        self._transport.write(response)
        self._transport.write_eof()
