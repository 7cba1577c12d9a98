"""The asyncio API of dlog: `connect` and `standalone`.

    async with dlog.aio.connect("sqlite:///data/meta.db") as client:
        async with client.open_writer("orders", create=True) as writer:
            await writer.append(b"payload")

The objects are those of the blocking API (`dlog.connect`), with calls to await.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec
from weakref import WeakSet

from dlog.cache.metadata_cache import MetadataCache
from dlog.client import LogClient
from dlog.client import connect as connect_unwatched
from dlog.config import LogConfig
from dlog.local.embedded import AsyncStandalone as standalone
from dlog.opening import Opening
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter
from ledger.environment import SystemEnvironment

__all__ = [
    "LogClient",
    "LogConfig",
    "LogWriter",
    "MetadataCache",
    "Opening",
    "Reader",
    "connect",
    "standalone",
]

P = ParamSpec("P")

_clients: WeakSet[LogClient] = WeakSet()
"""Of this process. The thread of a metadata store holds the writers that watch it, so a client that was dropped may
never be collected, and warns when the program ends.
"""


def _watched(connect: Callable[P, Opening[LogClient]]) -> Callable[P, Opening[LogClient]]:
    async def connected(*args: P.args, **kwargs: P.kwargs) -> LogClient:
        client = await connect(*args, **kwargs)
        # A simulated process that is killed closes nothing.
        if isinstance(client.ledgers.environment, SystemEnvironment):
            _clients.add(client)
        return client

    @wraps(connect)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[LogClient]:
        return Opening(connected(*args, **kwargs))

    return opening


connect = _watched(connect_unwatched)


@atexit.register
def _warn_unclosed() -> None:
    for client in list(_clients):
        client.warn_unclosed()


os.register_at_fork(after_in_child=_clients.clear)  # those of the parent, which closes them
