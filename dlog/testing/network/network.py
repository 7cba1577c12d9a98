"""The network between the nodes, and everything that can go wrong in it.

Every node has a host of its own with an address; "localhost" and 127.0.0.1 mean the node's own. Within a connection
bytes are in order and none is lost before its end; between connections any order is possible, since each packet
takes a time of its own. Every fault is a method and is counted in the trace as "fault.<name>".
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, cast

from bookie_server.config import DEFAULT_PORT
from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.trace import Trace
from dlog.testing.network.connections import Connection
from dlog.testing.network.frames import Said
from dlog.testing.network.handshake import Attempt, connect
from dlog.testing.network.links import RESENT_AFTER_S_MAX, Link
from dlog.testing.network.pipes import Pipe
from dlog.testing.network.servers import SimulatedServer
from dlog.testing.network.transports import SimulatedTransport
from dlog.testing.network.wiretap import Requests, Wiretap

OWN_HOST = frozenset({"127.0.0.1", "localhost", "::1"})
ANY_HOST = frozenset({"", "0.0.0.0", "::"})
FIRST_FREE_PORT = 32768
_WINDOW_BITS = (14, 20)
"""Windows of 16 KiB to 1 MiB: what both kernels hold of one direction."""


class Network:
    """Hosts, listening sockets, connections, and their faults. Nodes are called by name."""

    def __init__(self, loop: Scheduler, seeds: Seeds, trace: Trace) -> None:
        self._loop = loop
        self._trace = trace
        self._chance = seeds.stream("network")
        self._seeds = seeds
        self._hosts: dict[str, str] = {}
        self._listeners: dict[tuple[str, int], SimulatedServer] = {}
        self._next_port: dict[str, int] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._connections: dict[int, Connection] = {}
        self._opened = 0
        self._down: set[str] = set()
        self._down_since: dict[str, float] = {}
        self._refusing: set[str] = set()
        self.on_request: dict[str, Callable[[str, Said], None]] = {}
        """By the name of a client's node: called with the bookie and each request that the client sends to it."""

    # ---- hosts

    def new_address(self) -> str:
        number = len(self._hosts) + 1
        return f"10.0.{number // 250}.{number % 250 + 1}"

    def booted(self, node: Node) -> None:
        """A process runs on the host; a host that was powered off is back."""
        self._hosts[node.address] = node.name
        if node.name in self._down:
            self._down.remove(node.name)
            lasted_s = min(self._loop.now - self._down_since.pop(node.name), RESENT_AFTER_S_MAX)
            for link in [link for (_, target), link in self._links.items() if target == node.name]:
                for pipe in list(link.pipes):
                    pipe.host_back(lasted_s * self._chance.random())

    def killed(self, node: Node, host_too: bool) -> None:
        """The process is dead: its kernel closes its connections, unless the host is powered off."""
        for place, server in list(self._listeners.items()):
            if server.node is node:
                del self._listeners[place]
        if host_too:
            self._down.add(node.name)
            self._down_since[node.name] = self._loop.now
        for connection in list(self._connections.values()):
            for end in (connection.client, connection.server):
                if end.node is not node:
                    continue
                if host_too:
                    end.host_lost()
                else:
                    end.kernel_close()

    def name_of(self, address: str) -> str:
        """The node that has an address, with or without a port; the address itself if none has."""
        return self._hosts.get(address.partition(":")[0], address)

    def is_down(self, name: str) -> bool:
        """Whether the host of this node is powered off, so that nothing there answers."""
        return name in self._down

    # ---- listening and connecting

    def bind(
        self,
        node: Node,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        backlog: int,
    ) -> asyncio.Server:
        """A socket that is bound and does not listen yet. OSError as the kernel's."""
        if host is not None and host not in ANY_HOST and self._resolve(node, host) != node.address:
            raise OSError(
                errno.EADDRNOTAVAIL,
                f"error while attempting to bind on address {(host, port)}: cannot assign requested address",
            )
        place = (node.address, port or self._free_port(node.address))
        if place in self._listeners:
            raise OSError(
                errno.EADDRINUSE, f"error while attempting to bind on address {place}: address already in use"
            )
        server = SimulatedServer(
            self._loop, node, protocol_factory, place, backlog, lambda: self._unbind(place, server)
        )
        self._listeners[place] = server
        return cast(asyncio.Server, server)

    async def connect(
        self, node: Node, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """OSError as the kernel's; waits for a host that does not answer as long as the kernel would."""
        address = self._resolve(node, host)
        target = self._hosts.get(address)
        if target is None:
            raise OSError(
                errno.EHOSTUNREACH, f"Connect call failed {(host, port)}: no such host in the simulation"
            )
        return await connect(
            self._loop, Attempt(self._loop, self, node, target, (address, port)), protocol_factory
        )

    def listener(self, target: str, address: tuple[str, int]) -> SimulatedServer | None:
        """Who takes connections there; None if they are refused."""
        server = self._listeners.get(address)
        if server is None or not server.is_serving():
            return None
        if target in self._refusing:
            self._trace.note("fault.refuse", target, f"port {address[1]}")
            return None
        return server

    def establish(self, node: Node, server: SimulatedServer, address: tuple[str, int]) -> Connection:
        """Both kernels have the connection. The server's program takes it when it runs."""
        self._opened += 1
        number = self._opened
        there, back = self._pipe(node, server.node), self._pipe(server.node, node)
        there.back, back.back = back, there
        client_end = SimulatedTransport(self._loop, node, back, there)
        server_end = SimulatedTransport(self._loop, server.node, there, back)
        connection = Connection(number, client_end, server_end, lambda: self._forget(number, there, back))
        client_end.connection = server_end.connection = connection
        there.sender = back.receiver = client_end
        there.receiver = back.sender = server_end
        own = (node.address, self._free_port(node.address))
        client_end.name(own, address)
        server_end.name(address, own)
        self._connections[number] = connection
        server.shaken_hands(server_end)
        if address[1] == DEFAULT_PORT and (heard := self.on_request.get(node.name)) is not None:
            client_end.on_sent = Requests(server.node.label, heard).sent
        if self._trace.with_events:
            self._trace.detail("connected", node.label, f"{connection}")
            if address[1] == DEFAULT_PORT:
                tap = Wiretap(self._trace, self._loop.time, node.label, server.node.label)
                client_end.listen_in(tap.requests, tap.responses)
                server_end.listen_in(tap.responses, tap.requests)
        return connection

    def link(self, source: str, target: str) -> Link:
        """From one node to another, by name."""
        key = source, target
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(source, target, self._seeds.stream(f"network {source} {target}"))
        return link

    def _pipe(self, source: Node, target: Node) -> Pipe:
        link = self.link(source.name, target.name)
        return Pipe(self._loop, link, 1 << self._chance.randint(*_WINDOW_BITS), self._chance)

    def _forget(self, number: int, there: Pipe, back: Pipe) -> None:
        self._connections.pop(number, None)
        there.forget()
        back.forget()

    def _unbind(self, place: tuple[str, int], server: SimulatedServer) -> None:
        if self._listeners.get(place) is server:
            del self._listeners[place]

    def _resolve(self, node: Node, host: str) -> str:
        return node.address if host in OWN_HOST else host

    def _free_port(self, address: str) -> int:
        port = self._next_port.get(address, FIRST_FREE_PORT)
        while (address, port) in self._listeners:
            port += 1
        self._next_port[address] = port + 1 if port < 65535 else FIRST_FREE_PORT
        return port

    def disorder(self) -> dict[str, int]:
        """What happened without being asked for: packets that were delayed, and that overtook another connection's."""
        links = self._links.values()
        return {
            "delay": sum(link.late for link in links),
            "reordering": sum(link.overtaken for link in links),
        }

    # ---- faults of one connection

    def connections(self, first: str | None = None, second: str | None = None) -> list[Connection]:
        """The open ones, oldest first; of these two nodes, or of this one, or all."""
        return [
            each
            for each in self._connections.values()
            if first is None
            or (
                each.joins(first, second)
                if second
                else first in (each.client.node.name, each.server.node.name)
            )
        ]

    def reset(self, connection: Connection) -> None:
        """Both ends get a reset, unless it cannot reach them; what is on its way may be lost."""
        reached = [end.incoming.reset() for end in (connection.client, connection.server)]
        if any(reached):
            self._fault("reset", connection.client.node.label, repr(connection))

    def stall(self, connection: Connection, duration_s: float) -> None:
        """Nothing of it arrives for so long."""
        until = self._loop.now + duration_s
        for end in (connection.client, connection.server):
            end.incoming.stall(until)
        self._fault("stall", connection.client.node.label, f"{connection} for {duration_s:.3f} s")

    def half_open(self, connection: Connection) -> None:
        """Nothing of it ever arrives again, at either end, and neither is notified.

        Only who sends hears of it from its own kernel, after a quarter of an hour.
        """
        for end in (connection.client, connection.server):
            end.incoming.lose()
        self._fault("half_open", connection.client.node.label, repr(connection))

    # ---- faults of links and hosts

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Let nothing pass from one node to the other, nor back unless asked to.

        Nothing sent is dropped: it waits with its sender until the link is healed or an end gives up. Where only
        one way is cut, bytes pass the other way until their acknowledgements are missing.
        """
        changed = self.link(source, target).cut(self._loop.now)
        if not one_way:
            changed = self.link(target, source).cut(self._loop.now) or changed
        if changed:
            self._fault("cut_one_way" if one_way else "cut", source, f"to {target}")

    def heal(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Let everything pass again."""
        changed = self.link(source, target).heal(self._loop.now)
        if not one_way:
            changed = self.link(target, source).heal(self._loop.now) or changed
        if changed:
            self._trace.note("net.heal", source, f"{'to' if one_way else 'and'} {target}")

    def heal_all(self) -> None:
        """No link is cut and no node refuses connections any more. Lost connections stay lost."""
        now = self._loop.now
        healed = [link for link in self._links.values() if link.heal(now)]
        self._refusing.clear()
        self._trace.note("net.heal_all", "world", f"{len(healed)} links")

    def clog(self, source: str, target: str, duration_s: float) -> None:
        """Nothing passes from one node to the other for that time; then all of it arrives."""
        self.link(source, target).clog(self._loop.now + duration_s)
        self._fault("clog", source, f"to {target} for {duration_s:.3f} s")

    def refuse(self, name: str, refusing: bool = True) -> None:
        """Refuse every new connection to the node, or take them again."""
        if refusing:
            self._refusing.add(name)
        else:
            self._refusing.discard(name)

    def isolate(self, name: str) -> None:
        """Cut the node off from every other one that exists."""
        self._separate([name], [other for other in self._names() if other != name])
        self._fault("isolate", name, "")

    def split(self, groups: Sequence[Iterable[str]]) -> None:
        """Cut every node off from all that are not in its group."""
        sides = [list(group) for group in groups]
        for one, other in combinations(sides, 2):
            self._separate(one, other)
        self._fault("split", "world", " | ".join(" ".join(side) for side in sides))

    def _separate(self, one: Iterable[str], other: list[str]) -> None:
        now = self._loop.now
        for source in one:
            for target in other:
                self.link(source, target).cut(now)
                self.link(target, source).cut(now)

    def _names(self) -> list[str]:
        return list(self._hosts.values())

    def _fault(self, name: str, node: str, text: str) -> None:
        self._trace.note(f"fault.{name}", node, text)
