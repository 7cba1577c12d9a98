"""How two kernels shake hands: a SYN that may have to be sent again, an answer, a refusal."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Protocol

from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.network.connections import Connection
from dlog.testing.network.links import Link
from dlog.testing.network.servers import SimulatedServer

_SYN_TRIES_MAX = 6
"""Linux sends a SYN again after 1, 2, 4, … s and gives up after 127 s."""


class Hosts(Protocol):
    """The network as one that connects sees it; hosts are called by their nodes' names."""

    def is_down(self, name: str) -> bool: ...
    def link(self, source: str, target: str) -> Link: ...
    def listener(self, target: str, address: tuple[str, int]) -> SimulatedServer | None: ...
    def establish(self, node: Node, server: SimulatedServer, address: tuple[str, int]) -> Connection: ...


class Attempt:
    """One attempt of a node to connect. Its steps run in the kernels, so in no node that could be paused."""

    def __init__(
        self, loop: Scheduler, network: Hosts, node: Node, target: str, address: tuple[str, int]
    ) -> None:
        self.answer: asyncio.Future[Connection] = loop.create_future()
        self._loop = loop
        self._network = network
        self._node = node
        self._target = target
        self._address = address
        self._tries = 0
        self._kernel = loop.kernel_context()
        self._there = network.link(node.name, target)
        self._back = network.link(target, node.name)

    def start(self) -> None:
        self._loop.call_soon(self._send_syn, context=self._kernel)

    def _send_syn(self) -> None:
        if not self._node.alive or self.answer.done():
            return
        if self._network.is_down(self._target) or self._passes_not():
            self._try_again()
        else:
            self._later(max(self._there.delay(), self._there.quiet_until - self._loop.now), self._syn_arrives)

    def _syn_arrives(self) -> None:
        if self._network.is_down(self._target) or self._passes_not():
            self._try_again()
            return
        server = self._network.listener(self._target, self._address)
        if server is None:
            self._later(self._back.delay(), self._refused)
        elif not server.has_room:
            self._try_again()
        else:
            connection = self._network.establish(self._node, server, self._address)
            self._later(
                max(self._back.delay(), self._back.quiet_until - self._loop.now),
                self._established,
                connection,
            )

    def _try_again(self) -> None:
        self._tries += 1
        if self._tries > _SYN_TRIES_MAX:
            self._fail(TimeoutError(errno.ETIMEDOUT, f"Connect call failed {self._address}"))
        else:
            self._later(2.0 ** (self._tries - 1), self._send_syn)

    def _refused(self) -> None:
        self._fail(ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {self._address}"))

    def _established(self, connection: Connection) -> None:
        if self.answer.done() or not self._node.alive:
            connection.client.kernel_close(reset=True)
        elif self._passes_not():
            self._later(1.0, self._established, connection)  # the answer is sent again
        else:
            self.answer.set_result(connection)

    def _passes_not(self) -> bool:
        return self._there.cut_since is not None or self._back.cut_since is not None

    def _fail(self, error: OSError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def _later(self, delay_s: float, step: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_later(delay_s, step, *arguments, context=self._kernel)


async def connect(
    loop: Scheduler, attempt: Attempt, protocol_factory: Callable[[], asyncio.BaseProtocol]
) -> tuple[asyncio.Transport, Any]:
    """Shake hands and hand the connection to a new protocol; what create_connection promises."""
    attempt.start()
    try:
        connection = await attempt.answer
    except asyncio.CancelledError:
        if attempt.answer.done() and not attempt.answer.cancelled() and attempt.answer.exception() is None:
            attempt.answer.result().client.kernel_close(reset=True)
        raise
    except OSError:
        del attempt  # a cycle with the error, whose traceback holds this frame
        raise
    transport = connection.client
    try:
        protocol = protocol_factory()
    except BaseException:
        transport.kernel_close()
        raise
    transport.attach(protocol)
    made: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_set_unless_done, made)
    try:
        await made
    except asyncio.CancelledError:
        transport.close()
        raise
    return transport, protocol


def _set_unless_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
