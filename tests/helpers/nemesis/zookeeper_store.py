"""The metadata of a nemesis run in an ensemble of three ZooKeeper servers, one of which at a time is in trouble.

Each client reaches each server through a relay of its own, and so does each server its peers.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from dlog.testing.relay import Direction, Relay
from tests.helpers.nemesis.chaos import Action, Chaos
from tests.helpers.processes.zookeeper_ensemble import ZooKeeperEnsemble

_SESSION_TIMEOUT_MS = 4000
_REQUEST_TIMEOUT_MS = 5000


class ZooKeeperStore:
    def __init__(self, directory: Path) -> None:
        self._ensemble = ZooKeeperEnsemble(directory)
        self._relays: dict[str, list[Relay]] = {}
        """Of each client one to each server."""
        self._in_trouble = False

    async def start(self) -> None:
        await self._ensemble.start()

    async def uri_for(self, client: str) -> str:
        relays = []
        for server in self._ensemble.servers:
            relay = Relay()
            await relay.open(("127.0.0.1", server.port))
            relays.append(relay)
        self._relays[client] = relays
        hosts = ";".join(f"127.0.0.1:{relay.port}" for relay in relays)
        options = f"session_timeout_ms={_SESSION_TIMEOUT_MS}&request_timeout_ms={_REQUEST_TIMEOUT_MS}"
        return f"zk+hierarchical://{hosts}/ledgers?{options}"

    def actions(self, chaos: Chaos) -> list[tuple[int, Action]]:
        return [
            (2, lambda: self.kill_server(chaos)),
            (2, lambda: self.pause_server(chaos)),
            (2, lambda: self.cut_off_server(chaos)),
            (2, lambda: self.stall_client(chaos)),
            (2, lambda: self.reset_clients(chaos)),
            (2, lambda: self.lose_responses(chaos)),
        ]

    async def heal(self) -> None:
        """Everything that ends a fault has run; the relays are clear of what was left, and all servers serve.

        A server that served when its fault ended may have lost its leader since, by the next fault.
        """
        for relay in self._all_relays():
            relay.heal()
        for server in self._ensemble.servers:
            await asyncio.to_thread(server.wait_until_serving)

    async def close(self) -> None:
        await asyncio.gather(*(relay.close() for relay in self._all_relays()))
        await self._ensemble.close()

    def _all_relays(self) -> list[Relay]:
        return [relay for relays in self._relays.values() for relay in relays]

    # ---- one server at a time

    async def kill_server(self, chaos: Chaos) -> None:
        number = self._take_victim(chaos)
        if number is None:
            return
        server = self._ensemble.servers[number]
        chaos.fault("kill ZooKeeper server", str(number))
        server.kill()

        async def start() -> None:
            await asyncio.to_thread(server.start, serving=True)
            chaos.note(f"ZooKeeper server {number} is back")
            self._in_trouble = False

        chaos.later(chaos.random.uniform(0.0, 3.0), start)

    async def pause_server(self, chaos: Chaos) -> None:
        number = self._take_victim(chaos)
        if number is None:
            return
        server = self._ensemble.servers[number]
        chaos.fault("pause ZooKeeper server", str(number))
        server.pause()

        async def resume() -> None:
            server.resume()
            await asyncio.to_thread(server.wait_until_serving)
            chaos.note(f"ZooKeeper server {number} continues")
            self._in_trouble = False

        chaos.later(chaos.random.uniform(0.5, 6.0), resume)

    async def cut_off_server(self, chaos: Chaos) -> None:
        """From its peers and from all clients; what is sent waits."""
        number = self._take_victim(chaos)
        if number is None:
            return
        chaos.fault("cut off ZooKeeper server", str(number))
        relays = [*(of_client[number] for of_client in self._relays.values()), *self._ensemble.links(number)]
        for relay in relays:
            relay.stall()

        async def reconnect() -> None:
            for relay in relays:
                relay.reset()
                relay.heal()
            await asyncio.to_thread(self._ensemble.servers[number].wait_until_serving)
            chaos.note(f"ZooKeeper server {number} is reachable again")
            self._in_trouble = False

        chaos.later(chaos.random.uniform(0.5, 6.0), reconnect)

    def _take_victim(self, chaos: Chaos) -> int | None:
        """With two of three in trouble there would be no quorum, and nothing but waiting."""
        if self._in_trouble:
            return None
        self._in_trouble = True
        return chaos.random.randrange(len(self._ensemble.servers))

    # ---- links of clients

    async def stall_client(self, chaos: Chaos) -> None:
        """Sometimes for longer than its session lives."""
        client = chaos.random.choice(sorted(self._relays))
        chaos.fault("cut off client from ZooKeeper", client)
        for relay in self._relays[client]:
            relay.stall()

        async def reconnect() -> None:
            chaos.note(f"{client} reaches ZooKeeper again")
            for relay in self._relays[client]:
                relay.heal()

        chaos.later(chaos.random.choice([1.0, 2.0, _SESSION_TIMEOUT_MS / 1000 + 1.0]), reconnect)

    async def lose_responses(self, chaos: Chaos) -> None:
        """A client's changes are made, and the connection breaks before their responses arrive."""
        client = chaos.random.choice(sorted(self._relays))
        chaos.fault("lose responses of ZooKeeper", client)
        for relay in self._relays[client]:
            relay.stall(directions=frozenset({Direction.RESPONSES}))

        async def reset() -> None:
            for relay in self._relays[client]:
                relay.reset()
                relay.heal()

        chaos.later(chaos.random.uniform(0.01, 0.5), reset)

    async def pause_quorum(self, chaos: Chaos) -> None:
        """Two of three do not respond: nothing can be changed, and reads by the third are refused or old."""
        if self._in_trouble:
            return
        self._in_trouble = True
        victims = chaos.random.sample(self._ensemble.servers, 2)
        chaos.fault("pause two ZooKeeper servers", "of three")
        for server in victims:
            server.pause()

        async def resume() -> None:
            for server in victims:
                server.resume()
            for server in self._ensemble.servers:
                await asyncio.to_thread(server.wait_until_serving)
            self._in_trouble = False

        chaos.later(chaos.random.uniform(0.5, 4.0), resume)

    async def reset_clients(self, chaos: Chaos) -> None:
        """An answer under way is lost: the change was made or not."""
        chaos.fault("reset connections to ZooKeeper", "all")
        for relay in self._all_relays():
            relay.reset()
