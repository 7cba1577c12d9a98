"""dlog: an unbounded, replicated, strictly fenced log on BookKeeper ledgers.

    with dlog.standalone("data") as cluster, dlog.connect(cluster.uri) as client:
        with client.open_writer("orders", create=True) as writer:
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
    from dlog import aio, arrow, errors
    from dlog.blocking.client import Client, connect
    from dlog.blocking.metadata_cache import MetadataCache
    from dlog.blocking.pending import Pending
    from dlog.blocking.producer import Producer
    from dlog.blocking.reader import Reader
    from dlog.blocking.writer import Writer
    from dlog.config import LogConfig
    from dlog.core.batching import BatchLimits
    from dlog.core.degraded import DegradedPolicy
    from dlog.core.rotation_triggers import RotationLimits
    from dlog.core.tailing import Gap
    from dlog.format.entry import Codec
    from dlog.local.embedded import Standalone as standalone
    from dlog.model import NO_MESSAGE, Appended, Cursor, Message, MessageId, Retention
    from dlog.read.batch import MessageBatch
    from dlog.read.config import ReaderConfig
    from ledger.config import LedgerClientConfig, Visibility, WireProtocol
    from ledger.model import DigestType, QuorumSizes
    from ledger.placement.config import PlacementConfig

__all__ = [
    "NO_MESSAGE",
    "Appended",
    "BatchLimits",
    "Client",
    "Codec",
    "Cursor",
    "DegradedPolicy",
    "DigestType",
    "Gap",
    "LedgerClientConfig",
    "LogConfig",
    "Message",
    "MessageBatch",
    "MessageId",
    "MetadataCache",
    "Pending",
    "PlacementConfig",
    "Producer",
    "QuorumSizes",
    "Reader",
    "ReaderConfig",
    "Retention",
    "RotationLimits",
    "Visibility",
    "WireProtocol",
    "Writer",
    "aio",
    "arrow",
    "connect",
    "errors",
    "standalone",
]

_OWNERS = {
    "NO_MESSAGE": ("dlog.model", "NO_MESSAGE"),
    "Appended": ("dlog.model", "Appended"),
    "BatchLimits": ("dlog.core.batching", "BatchLimits"),
    "Client": ("dlog.blocking.client", "Client"),
    "Codec": ("dlog.format.entry", "Codec"),
    "Cursor": ("dlog.model", "Cursor"),
    "DegradedPolicy": ("dlog.core.degraded", "DegradedPolicy"),
    "DigestType": ("ledger.model", "DigestType"),
    "Gap": ("dlog.core.tailing", "Gap"),
    "LedgerClientConfig": ("ledger.config", "LedgerClientConfig"),
    "LogConfig": ("dlog.config", "LogConfig"),
    "Message": ("dlog.model", "Message"),
    "MessageBatch": ("dlog.read.batch", "MessageBatch"),
    "MessageId": ("dlog.model", "MessageId"),
    "MetadataCache": ("dlog.blocking.metadata_cache", "MetadataCache"),
    "Pending": ("dlog.blocking.pending", "Pending"),
    "PlacementConfig": ("ledger.placement.config", "PlacementConfig"),
    "Producer": ("dlog.blocking.producer", "Producer"),
    "QuorumSizes": ("ledger.model", "QuorumSizes"),
    "Reader": ("dlog.blocking.reader", "Reader"),
    "ReaderConfig": ("dlog.read.config", "ReaderConfig"),
    "Retention": ("dlog.model", "Retention"),
    "RotationLimits": ("dlog.core.rotation_triggers", "RotationLimits"),
    "Visibility": ("ledger.config", "Visibility"),
    "WireProtocol": ("ledger.config", "WireProtocol"),
    "Writer": ("dlog.blocking.writer", "Writer"),
    "connect": ("dlog.blocking.client", "connect"),
    "standalone": ("dlog.local.embedded", "Standalone"),
}

if not TYPE_CHECKING:  # a type checker that saw it would take every name for known

    def __getattr__(name: str) -> Any:
        if name in ("aio", "arrow", "errors"):
            return import_module(f"dlog.{name}")
        if name not in _OWNERS:
            raise AttributeError(f"module 'dlog' has no attribute {name!r}")
        module, attribute = _OWNERS[name]
        value = globals()[name] = getattr(import_module(module), attribute)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
