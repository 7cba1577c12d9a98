"""dlog: an unbounded, replicated, strictly fenced log on BookKeeper ledgers.

    with dlog.standalone("data") as cluster, dlog.connect(cluster.uri) as client:
        with client.open_writer("orders") as writer:
            writer.append(b"payload")
        for message in client.reader("orders", until="latest"):
            print(message.id, message.payload)

The API here blocks; `dlog.aio` has the same for asyncio. All errors are in `dlog.errors`.
Names are loaded on first use, so `import dlog` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlog import aio, errors
    from dlog.blocking.client import connect
    from dlog.config import LogConfig
    from dlog.core.tailing import Gap
    from dlog.local.embedded import Standalone as standalone
    from dlog.model import Message, MessageId
    from ledger.model import QuorumSizes

__all__ = [
    "Gap",
    "LogConfig",
    "Message",
    "MessageId",
    "QuorumSizes",
    "aio",
    "connect",
    "errors",
    "standalone",
]

_OWNERS = {
    "Gap": ("dlog.core.tailing", "Gap"),
    "LogConfig": ("dlog.config", "LogConfig"),
    "Message": ("dlog.model", "Message"),
    "MessageId": ("dlog.model", "MessageId"),
    "QuorumSizes": ("ledger.model", "QuorumSizes"),
    "connect": ("dlog.blocking.client", "connect"),
    "standalone": ("dlog.local.embedded", "Standalone"),
}


def __getattr__(name: str) -> Any:
    if name in ("aio", "errors"):
        return import_module(f"dlog.{name}")
    if name not in _OWNERS:
        raise AttributeError(f"module 'dlog' has no attribute {name!r}")
    module, attribute = _OWNERS[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value
