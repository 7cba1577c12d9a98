"""What an event loop offers to connect and to serve, on the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.unsupported import RefusingLoop, refusal, refuse_options
from dlog.testing.network.network import Network


class ConnectingLoop(RefusingLoop):
    """The part of an event loop that uses the network."""

    network: Network

    @property
    def node(self) -> Node:
        """The node that runs now."""
        raise NotImplementedError

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: object,
    ) -> tuple[asyncio.Transport, Any]:
        refuse_options("create_connection", options)
        if host is None or port is None:
            raise refusal("create_connection without a host and a port")
        return await self.network.connect(self.node, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]  # fewer options than asyncio's
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        backlog: int = 100,
        start_serving: bool = True,
        **options: object,
    ) -> asyncio.Server:
        refuse_options("create_server", options)
        if port is None:
            raise refusal("create_server without a port")
        server = self.network.bind(self.node, protocol_factory, host, port, backlog)
        if start_serving:
            await server.start_serving()
        return server
