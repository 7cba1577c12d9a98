"""Ports of test servers, which start again at the same address: each worker of the suite has a range of its own.

Without that a server of another worker may take the port of one that is down.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Mapping

from bookie_server.net.port import FREE_PORTS, VARIABLE


def give_range(environment: Mapping[str, str]) -> None:
    """Let the bookies of this process and of its children choose from the range of this worker."""
    ports = own_ports(environment)
    os.environ[VARIABLE] = f"{ports.start}-{ports.stop - 1}"


def own_ports(environment: Mapping[str, str] = os.environ) -> range:
    """Those of this worker: one of as many parts as there are workers."""
    workers = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = len(FREE_PORTS) // workers
    return FREE_PORTS[number * size : (number + 1) * size]


def free_ports(count: int) -> list[int]:
    """Ports that no process has now, and that the system gives to no connection while their server is down."""
    ports = own_ports()
    with contextlib.ExitStack() as probes:
        found: list[int] = []
        for port in random.SystemRandom().sample(ports, len(ports)):
            with contextlib.suppress(OSError):
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(f"{count} ports of {ports} are not free")
