"""A listening socket of a simulated node, as asyncio.Server shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlog.testing.kernel.nodes import Node, context_of
from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.network.transports import SimulatedSocket, SimulatedTransport


class SimulatedServer(asyncio.AbstractServer):
    """Bound when made, listening from `start_serving` until `close`.

    `wait_closed` waits for the server's connections too, as Python does from 3.12 on: whoever would hang there
    hangs here under any Python.
    """

    def __init__(
        self,
        loop: Scheduler,
        node: Node,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        address: tuple[str, int],
        backlog: int,
        unbind: Callable[[], None],
    ) -> None:
        self.node = node
        self.context = context_of(node)
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._address = address
        self._backlog = backlog
        self._unbind = unbind
        self._serving = False
        self._closed = False
        self._waiting: list[SimulatedTransport] = []
        self._attached = 0
        self._all_gone: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        return () if self._closed else (SimulatedSocket(self._address),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._serving

    async def start_serving(self) -> None:
        if self._closed:
            raise RuntimeError(f"server {self._address} is closed")
        self._serving = True
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        if self._forever is not None:
            raise RuntimeError(f"server {self._address} is already being awaited on serve_forever()")
        await self.start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self._forever = None
            self.close()
            await self.wait_closed()

    def close(self) -> None:
        if self._closed:
            return
        self._closed, self._serving = True, False
        self._unbind()
        for transport in self._waiting:
            transport.kernel_close(reset=True)
        self._waiting.clear()
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()
        self._wake_if_done()

    async def wait_closed(self) -> None:
        if not self._closed or self._attached:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._all_gone.append(waiter)
            await waiter

    # ---- what the network and the transports call

    @property
    def has_room(self) -> bool:
        """Whether the kernel takes one more connection for which the program has not asked yet."""
        return len(self._waiting) <= self._backlog

    def shaken_hands(self, transport: SimulatedTransport) -> None:
        """The kernel has a new connection; the program takes it when it runs."""
        self._waiting.append(transport)
        self._loop.call_soon(self._accept, transport, context=self.context)

    def _accept(self, transport: SimulatedTransport) -> None:
        if transport not in self._waiting:
            return
        self._waiting.remove(transport)
        try:
            protocol = self._protocol_factory()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the program's, whatever it is; as asyncio's own
            self._loop.call_exception_handler(
                {"message": "Error on transport creation for incoming connection", "exception": error}
            )
            transport.kernel_close()
            return
        transport.attach(protocol, self)

    def attached(self) -> None:
        self._attached += 1

    def detached(self) -> None:
        self._attached -= 1
        self._wake_if_done()

    def _wake_if_done(self) -> None:
        if self._closed and not self._attached:
            for waiter in self._all_gone:
                if not waiter.done():
                    waiter.set_result(None)
            self._all_gone.clear()
