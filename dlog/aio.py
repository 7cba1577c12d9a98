"""The asyncio API of dlog: `connect` and `standalone`.

    async with dlog.aio.connect("sqlite:///data/meta.db") as client:
        async with client.open_writer("orders", create=True) as writer:
            await writer.append(b"payload")

The objects are those of the blocking API (`dlog.connect`), with calls to await.
"""

from __future__ import annotations

import atexit
import logging
import os
from weakref import WeakSet

from dlog.cache.metadata_cache import MetadataCache
from dlog.client import DEFAULT_NAMESPACE, LogClient
from dlog.client import connect as connect_unwatched
from dlog.config import LogConfig
from dlog.local.embedded import AsyncStandalone as standalone
from dlog.opening import Opening
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter
from ledger.environment import Environment, SystemEnvironment

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

_log = logging.getLogger(__name__)

_clients: WeakSet[LogClient] = WeakSet()
"""Of this process. The thread of a metadata store holds the writers that watch it, so a client that was dropped may
never be collected, and warns when the program ends.
"""


def connect(
    uri: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    config: LogConfig | None = None,
    environment: Environment | None = None,
) -> Opening[LogClient]:
    return Opening(_connect(uri, namespace, config, environment or SystemEnvironment()))


connect.__doc__ = connect_unwatched.__doc__


async def _connect(
    uri: str | None, namespace: str, config: LogConfig | None, environment: Environment
) -> LogClient:
    client = await connect_unwatched(uri, namespace, config=config, environment=environment)
    if isinstance(environment, SystemEnvironment):  # a simulated process that is killed closes nothing
        _clients.add(client)
    return client


@atexit.register
def _warn_unclosed() -> None:
    for client in list(_clients):
        client.__del__()  # a ResourceWarning unless it is closed
        for writer in client.writers:
            if writer.buffered_bytes:
                _log.warning(
                    "the client of log %s was not closed: appends that are under way may be lost; await close() or "
                    "flush(), or use 'async with'",
                    writer.log,
                )


os.register_at_fork(after_in_child=_clients.clear)  # those of the parent, which closes them
