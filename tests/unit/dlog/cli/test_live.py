"""What `dlog top` follows. The command itself: tests/integration/cli."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from dlog.cache.metadata_cache import MetadataCache
from dlog.cli import live
from dlog.client import LogClient
from dlog.model import LogName
from ledger.errors import MetadataUnavailableError

OLD, NEW = (LogName(namespace="default", name=name) for name in ("old", "new"))


class Listing:
    """Client and cache: a list that fails the second time, and what is followed of it."""

    def __init__(self) -> None:
        self.calls = 0
        self.has_new = asyncio.Event()

    def name(self, log: str) -> LogName:
        return LogName(namespace="default", name=log)

    async def list(self) -> list[str]:
        self.calls += 1
        if self.calls == 2:
            raise MetadataUnavailableError("the store is away")
        return [OLD.name] if self.calls == 1 else [OLD.name, NEW.name]

    async def follow_logs(self, logs: Iterable[LogName]) -> None:
        if NEW in logs:
            self.has_new.set()


async def test_logs_created_after_a_failed_list_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_NEW_LOGS_S", 0.001)
    fake = Listing()
    async with live._new_logs_followed(cast(LogClient, fake), cast(MetadataCache, fake)):
        async with asyncio.timeout(5):
            await fake.has_new.wait()
