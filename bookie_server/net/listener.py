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
from typing import NamedTuple

from bookie_server.errors import PortTakenError
from bookie_server.net.descriptors import BACKLOG
from ledger.errors import ConfigurationError, LogStoreError


class ListenerOptions(NamedTuple):
    """The options of the command line that errors name."""

    host: str
    port: str


OF_CLIENTS = ListenerOptions("--host", "a new bookie another --port")


async def bind(
    host: str,
    port: int,
    accept: Callable[[], asyncio.BaseProtocol],
    options: ListenerOptions = OF_CLIENTS,
    *,
    backlog: int = BACKLOG,
) -> asyncio.Server:
    """Bind the port without listening. PortTakenError; ConfigurationError if `host` is not of this machine."""
    try:
        return await asyncio.get_running_loop().create_server(
            accept, host, port, backlog=backlog, start_serving=False
        )
    except OSError as error:
        raise _refusal(error, host, port, options) from error


def claim(
    listener: asyncio.Server,
    host: str,
    port: int,
    options: ListenerOptions = OF_CLIENTS,
    *,
    backlog: int = BACKLOG,
) -> None:
    """Listen; on return the port is this process's, and connections wait until `listener.start_serving`.

    PortTakenError if another process was first. uvloop's `start_serving` returns as if nothing were wrong then.
    """
    for each in listener.sockets:
        if each.fileno() < 0:  # simulated: bound is ours there
            continue
        with socket.fromfd(each.fileno(), each.family, each.type, each.proto) as same:
            try:
                same.listen(backlog)
            except OSError as error:
                raise _refusal(error, host, port, options) from error


def _refusal(error: OSError, host: str, port: int, options: ListenerOptions) -> LogStoreError:
    cannot = f"cannot listen on {host}:{port} ({error.strerror or error})"
    if isinstance(error, socket.gaierror):
        return ConfigurationError(f"{cannot}: give a {options.host} that this machine can resolve")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(f"{cannot}: give an address of this machine as {options.host}")
    return PortTakenError(
        f"{cannot}: stop the process that uses the port, or give {options.port}",
        host=host,
        port=port,
    )
