"""The tree of repair while it is made, and removed under processes that use it."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.client import KazooClient

from ledger.errors import MetadataOutcomeUnknownError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import LedgerId
from tests.helpers.metadata.drivers import B1
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

L7 = LedgerId(7)


async def mark_and_lock(store: MetadataStore) -> None:
    """Both, as worker and auditor do; the mark is there afterwards."""
    await store.repair.mark(L7, {B1}, 1)
    assert [mark.ledger_id async for mark in store.repair.marks()] == [L7]
    lock = await store.repair.lock(L7, "worker")
    assert lock is not None
    await lock.release()


@pytest.mark.parametrize("node", ["", "/ledgers", "/locks", "/LAYOUT"])
def test_a_tree_whose_making_was_cut_off_is_completed(zookeeper: ZooKeeperProcess, node: str) -> None:
    """The answer to the creation of one of its nodes is lost: the nodes after it are missing."""
    root = zookeeper.new_root()

    async def main() -> None:
        uri = f"zk+hierarchical://{zookeeper.address}{root}"
        first, second = await open_store(uri), await open_store(uri)
        assert isinstance(first, ZooKeeperStore)
        await first.init_cluster()
        create = first._session.create

        async def cut_off(path: str, value: bytes = b"") -> None:
            await create(path, value)
            if path == f"{root}/underreplication{node}":
                raise MetadataOutcomeUnknownError("the answer is lost")

        first._session.create = cut_off  # type: ignore[method-assign,assignment]
        with pytest.raises(MetadataOutcomeUnknownError):
            await first.repair.mark(L7, {B1}, 1)
        await mark_and_lock(second)
        await first.close()
        await second.close()

    asyncio.run(main())


@pytest.mark.parametrize("missing", ["ledgers", "locks"])
def test_a_tree_that_has_only_its_layout_is_completed(
    zookeeper: ZooKeeperProcess, raw: KazooClient, missing: str
) -> None:
    """Earlier versions made LAYOUT first."""
    root = zookeeper.new_root()

    async def main() -> None:
        store = await open_store(f"zk+hierarchical://{zookeeper.address}{root}")
        await store.init_cluster()
        await store.repair.set_enabled(True)
        raw.delete(f"{root}/underreplication/{missing}")
        await mark_and_lock(store)
        await store.close()

    asyncio.run(main())
