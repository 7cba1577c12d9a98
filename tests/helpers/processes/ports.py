"""Ports for servers that a test starts again at the same address."""

from __future__ import annotations

import contextlib
import random
import socket

from bookie_server.net.port import FREE_PORTS


def free_ports(count: int) -> list[int]:
    """Ports that no process has now, and that the system gives to no connection while their server is down."""
    with contextlib.ExitStack() as probes:
        found: list[int] = []
        for port in random.SystemRandom().sample(FREE_PORTS, len(FREE_PORTS)):
            with contextlib.suppress(OSError):
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(f"{count} ports of {FREE_PORTS} are not free")
