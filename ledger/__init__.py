"""BookKeeper-style ledgers: bounded, replicated, fenced sequences of entries.

Names are loaded when first used, because the storage server imports `ledger.wire` and needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.client import LedgerClient
    from ledger.config import LedgerClientConfig, Visibility, WireProtocol
    from ledger.errors import LogStoreError
    from ledger.metadata.drivers import open_store, register_driver
    from ledger.model import DigestType, LedgerMetadata, LedgerState, QuorumSizes
    from ledger.placement.config import PlacementConfig
    from ledger.reading.bookie_reads import Entry
    from ledger.reading.read_handle import ReadHandle
    from ledger.writing.deferred_handle import DeferredWriteHandle
    from ledger.writing.write_handle import WriteHandle

__all__ = [
    "DeferredWriteHandle",
    "DigestType",
    "Entry",
    "LedgerClient",
    "LedgerClientConfig",
    "LedgerMetadata",
    "LedgerState",
    "LogStoreError",
    "PlacementConfig",
    "QuorumSizes",
    "ReadHandle",
    "Visibility",
    "WireProtocol",
    "WriteHandle",
    "open_store",
    "register_driver",
]

_OWNERS = {
    "DeferredWriteHandle": "ledger.writing.deferred_handle",
    "DigestType": "ledger.model",
    "Entry": "ledger.reading.bookie_reads",
    "LedgerClient": "ledger.client",
    "LedgerClientConfig": "ledger.config",
    "LedgerMetadata": "ledger.model",
    "LedgerState": "ledger.model",
    "LogStoreError": "ledger.errors",
    "PlacementConfig": "ledger.placement.config",
    "QuorumSizes": "ledger.model",
    "ReadHandle": "ledger.reading.read_handle",
    "Visibility": "ledger.config",
    "WireProtocol": "ledger.config",
    "WriteHandle": "ledger.writing.write_handle",
    "open_store": "ledger.metadata.drivers",
    "register_driver": "ledger.metadata.drivers",
}


if not TYPE_CHECKING:  # a type checker that saw it would take every name for known

    def __getattr__(name: str) -> Any:
        if name not in _OWNERS:
            raise AttributeError(f"module 'ledger' has no attribute {name!r}")
        return getattr(import_module(_OWNERS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
