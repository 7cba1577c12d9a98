"""The asyncio API of dlog: `connect` and `standalone`.

    async with dlog.aio.connect("sqlite:///data/meta.db") as client:
        async with client.open_writer("orders", create=True) as writer:
            await writer.append(b"payload")

The objects are those of the blocking API (`dlog.connect`), with calls to await.
"""

from __future__ import annotations

from dlog.cache.metadata_cache import MetadataCache
from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.local.embedded import AsyncStandalone as standalone
from dlog.opening import Opening
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter

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
