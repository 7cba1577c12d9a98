"""Many ledgers' metadata by one request of a server that knows it, and of one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import ClassVar

import pytest

from ledger.errors import MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.metadata.zookeeper.session import session as session_module
from ledger.metadata.zookeeper.session.multi_read import MultiRead
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import LedgerId
from tests.helpers.metadata.drivers import eventually_async, new_metadata
from tests.helpers.processes.zookeeper import ZooKeeperProcess

LEDGERS = [LedgerId(number) for number in range(100)]


class NotedRequest(MultiRead):
    """As ever, and it notes how many nodes each request is for."""

    sent: ClassVar[list[int]] = []

    def serialize(self) -> bytes:
        self.sent.append(len(self.paths))
        return super().serialize()


class UnknownRequest(NotedRequest):
    """Of a type that no server knows, as multiRead is for those before 3.6."""

    sent: ClassVar[list[int]] = []
    type = 77


@asynccontextmanager
async def filled(server: ZooKeeperProcess) -> AsyncIterator[ZooKeeperStore]:
    """A store with every second ledger."""
    store = await open_store(f"zk://{server.address}{server.new_root()}")
    assert isinstance(store, ZooKeeperStore)
    try:
        await store.init_cluster()
        for ledger_id in LEDGERS[::2]:
            await store.create_ledger(ledger_id, new_metadata(c_token=ledger_id + 1))
        yield store
    finally:
        await store.close()


async def glance(store: ZooKeeperStore) -> None:
    found = await store.glance_at_ledgers(LEDGERS)
    assert {ledger_id: (each.value.c_token, each.version) for ledger_id, each in found.items()} == {
        ledger_id: (ledger_id + 1, 0) for ledger_id in LEDGERS[::2]
    }


async def test_a_request_reads_many(zookeeper: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MultiRead", NotedRequest)
    async with filled(zookeeper) as store:
        await glance(store)
    assert NotedRequest.sent == [64, 36]


async def test_a_server_that_does_not_know_the_request_is_asked_for_each(
    zookeeper: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It also closes the connection, so what is asked just then may fail; the session goes on."""
    monkeypatch.setattr(session_module, "MultiRead", UnknownRequest)
    async with filled(zookeeper) as store:
        session_id = store._session.session_id
        with suppress(MetadataUnavailableError):
            await glance(store)
        await eventually_async(lambda: _can_glance(store))
        assert store._session.session_id == session_id
    assert UnknownRequest.sent[0] == 64 and len(UnknownRequest.sent) <= 2, "it is not tried again"


async def _can_glance(store: ZooKeeperStore) -> bool:
    try:
        await glance(store)
    except MetadataUnavailableError:
        return False
    return True
