"""The socket on which a bookie accepts connections: bound when it starts, listening when it can serve, or
as soon as it is bound to a port that the bookie has chosen itself: no client can know that one.

Linux binds two sockets with SO_REUSEADDR to one port while neither listens, so a bound port is not ours yet.
Only the first of them to listen has it, and any other must not register.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from bookie_server.errors import PortTakenError
from bookie_server.net.descriptors import BACKLOG
from ledger.errors import ConfigurationError, LogStoreError


async def bind(host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    """Bind the port without listening. PortTakenError; ConfigurationError if `host` is not of this machine."""
    try:
        return await asyncio.get_running_loop().create_server(
            accept, host, port, backlog=BACKLOG, start_serving=False
        )
    except OSError as error:
        raise _refusal(error, host, port) from error


def claim(listener: asyncio.Server, host: str, port: int) -> None:
    """Listen; on return the port is this process's, and connections wait until `listener.start_serving`.

    PortTakenError if another process was first. uvloop's `start_serving` returns as if nothing were wrong then.
    """
    for each in listener.sockets:
        if each.fileno() < 0:  # simulated: bound is ours there
            continue
        with socket.fromfd(each.fileno(), each.family, each.type, each.proto) as same:
            try:
                same.listen(BACKLOG)
            except OSError as error:
                raise _refusal(error, host, port) from error


def _refusal(error: OSError, host: str, port: int) -> LogStoreError:
    cannot = f"cannot listen on {host}:{port} ({error.strerror or error})"
    if isinstance(error, socket.gaierror):
        return ConfigurationError(f"{cannot}: give a --host that this machine can resolve")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(f"{cannot}: give an address of this machine as --host")
    return PortTakenError(
        f"{cannot}: stop the process that uses the port, or give a new bookie another --port",
        host=host,
        port=port,
    )
