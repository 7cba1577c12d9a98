"""Three real ZooKeeper servers that elect a leader; each reaches its peers through relays, which can cut it off."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from dlog.testing.relay import Relay
from tests.helpers.processes.ports import free_ports
from tests.helpers.processes.zookeeper import ZooKeeperProcess

SERVERS = 3


class ZooKeeperEnsemble:
    def __init__(self, directory: Path) -> None:
        self.servers: list[ZooKeeperProcess] = []
        self._directory = directory
        self._links: dict[tuple[int, int], list[Relay]] = {}
        """From one server to another: of the quorum's port and of the election's."""

    async def start(self) -> None:
        """On return each of them serves."""
        numbers = range(SERVERS)
        ports = [free_ports(2) for _ in numbers]
        for one, other in itertools.permutations(numbers, 2):
            self._links[one, other] = [Relay(), Relay()]
            for relay, port in zip(self._links[one, other], ports[other], strict=True):
                await relay.open(("127.0.0.1", port))
        for one in numbers:
            seen = [
                [relay.port for relay in self._links[one, other]] if other != one else ports[one]
                for other in numbers
            ]
            home = self._directory / f"zookeeper-{one}"
            home.mkdir()
            peers = tuple((quorum, election) for quorum, election in seen)
            self.servers.append(ZooKeeperProcess(home, number=one, peers=peers))
        for server in self.servers:  # together: one alone is no quorum
            server.start(serving=False)
        await asyncio.gather(*(asyncio.to_thread(server.wait_until_serving) for server in self.servers))

    def links(self, number: int) -> list[Relay]:
        """Of all connections between this server and the others."""
        return [relay for pair, relays in self._links.items() if number in pair for relay in relays]

    async def close(self) -> None:
        for server in self.servers:
            server.kill()
        await asyncio.gather(*(relay.close() for relays in self._links.values() for relay in relays))
