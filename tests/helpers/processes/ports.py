"""Ports of test servers, which start again at the same address: each worker of the suite has a range of its own.

Without that a server of another worker may take the port of one that is down. Half of the range is for the bookies
that choose by themselves; of the other half no port is given twice: a cluster takes the ports of all its servers
before the first of them listens.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Mapping

from bookie_server.net.port import FREE_PORTS, VARIABLE

_given: set[int] = set()
"""By this process, since it began with its half."""


def give_range(environment: Mapping[str, str]) -> None:
    """Set what the bookies of this process and of its children choose from: a half of what this worker has."""
    os.environ[VARIABLE] = range_text(ports_to_choose(environment))


def range_text(ports: range) -> str:
    """As the variable and the option have it."""
    return f"{ports.start}-{ports.stop - 1}"


def own_ports(environment: Mapping[str, str] = os.environ) -> range:
    """Those of this worker: one of as many parts as there are workers."""
    workers = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = len(FREE_PORTS) // workers
    return FREE_PORTS[number * size : (number + 1) * size]


def ports_to_choose(environment: Mapping[str, str] = os.environ) -> range:
    """The half for bookies that choose."""
    ports = own_ports(environment)
    return ports[: len(ports) // 2]


def free_ports(count: int) -> list[int]:
    """Ports that no process has now, that no earlier call has given, and that the system gives to no connection."""
    ports = own_ports()
    ports = ports[len(ports) // 2 :]
    if len(ports) - len(_given) < 2 * count:
        _given.clear()
    left = [port for port in ports if port not in _given]
    with contextlib.ExitStack() as probes:
        found: list[int] = []
        for port in random.SystemRandom().sample(left, len(left)):
            with contextlib.suppress(OSError):
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                _given.update(found)
                return found
    raise AssertionError(f"{count} ports of {ports} are not free")
