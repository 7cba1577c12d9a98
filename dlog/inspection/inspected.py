"""What an inspection needs of a client."""

from __future__ import annotations

from typing import Protocol

from dlog.admin import LogInfo
from dlog.config import LogConfig
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName, MessageId
from dlog.read.resolution import Resolution
from ledger.client import LedgerClient


class Inspected(Protocol):
    """The part of `LogClient` by which inspections look into its logs."""

    config: LogConfig
    ledgers: LedgerClient
    logs: LogMetadataStore

    def name(self, log: str) -> LogName: ...

    async def describe(self, log: str) -> LogInfo: ...

    async def resolve(self, log: str, message_id: MessageId | str) -> Resolution: ...
