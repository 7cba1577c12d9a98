"""The tree of repair while it is made, and removed under processes that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from kazoo.client import KazooClient

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
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


@pytest.mark.parametrize("stored", [False, True], ids=["first", "again"])
def test_a_delay_whose_setting_was_cut_off_is_there_or_not(zookeeper: ZooKeeperProcess, stored: bool) -> None:
    """The connection is lost after the first request. Half a setting would end the work of every auditor."""

    async def main() -> None:
        uri = f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}"
        first, second = await open_store(uri), await open_store(uri)
        assert isinstance(first, ZooKeeperStore)
        await first.init_cluster()
        await first.repair.set_enabled(True)
        if stored:
            await first.repair.set_lost_bookie_delay_s(60)
        made: list[str] = []

        def cut_off(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def send(path: str, *args: Any, **options: Any) -> Any:
                if made:
                    raise MetadataUnavailableError("the connection is lost")
                answer = await request(path, *args, **options)
                made.append(path)
                return answer

            return send

        for each in ("create", "set"):
            setattr(first._session, each, cut_off(getattr(first._session, each)))
        with suppress(MetadataUnavailableError):
            await first.repair.set_lost_bookie_delay_s(9)
        found = await second.repair.lost_bookie_delay_s()
        assert made and found is not None and found.value == 9
        await first.close()
        await second.close()

    asyncio.run(main())


def test_a_delay_of_which_an_earlier_version_has_set_half_is_none(
    zookeeper: ZooKeeperProcess, raw: KazooClient
) -> None:
    """It made the node and was cut off before it wrote the value: an auditor sets it anew."""
    root = zookeeper.new_root()

    async def main() -> None:
        store = await open_store(f"zk+hierarchical://{zookeeper.address}{root}")
        await store.init_cluster()
        await store.repair.set_enabled(True)
        raw.create(f"{root}/underreplication/lostBookieRecoveryDelay", b"")
        assert await store.repair.lost_bookie_delay_s() is None
        await store.repair.set_lost_bookie_delay_s(9)
        found = await store.repair.lost_bookie_delay_s()
        assert found is not None and found.value == 9
        await store.close()

    asyncio.run(main())


async def lock(store: MetadataStore) -> None:
    taken = await store.repair.lock(L7, "worker")
    assert taken is not None
    await taken.release()


async def stand(store: MetadataStore) -> None:
    await (await store.repair.stand("host-1:1")).close()


CHANGES: dict[str, Callable[[MetadataStore], Awaitable[None]]] = {
    "mark": lambda store: store.repair.mark(L7, {B1}, 1),
    "lock": lock,
    "stand": stand,
    "delay": lambda store: store.repair.set_lost_bookie_delay_s(9),
    "disable": lambda store: store.repair.set_enabled(False),
}


@pytest.mark.parametrize("before", ["without a tree", "with a tree"])
@pytest.mark.parametrize("how", ["format", "nuke"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_during_which_the_cluster_is_removed(
    zookeeper: ZooKeeperProcess, name: str, how: str, before: str
) -> None:
    """It is made after a format, and refused after a nuke: no error of kazoo's ends an auditor or a worker."""
    uri = f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}"

    async def main() -> None:
        admin, store = await open_store(uri), await open_store(uri)
        assert isinstance(store, ZooKeeperStore)
        await admin.init_cluster()
        if before == "with a tree":
            await mark_and_lock(store)
            await store.repair.set_lost_bookie_delay_s(9)
        removed: list[int] = []
        session = store._session

        def after_removal(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def send(path: str, *args: Any, **options: Any) -> Any:
                if not removed and "underreplication" in path:
                    removed.append(1)
                    if how == "format":
                        await admin.format_cluster()
                    else:
                        await admin.nuke_cluster(await admin.instance_id())
                return await request(path, *args, **options)

            return send

        for each in ("create", "set"):
            setattr(session, each, after_removal(getattr(session, each)))
        if how == "format":
            await CHANGES[name](store)
        else:
            with pytest.raises(MetadataUnavailableError, match="holds no cluster yet"):
                await CHANGES[name](store)
        assert removed
        await store.close()
        await admin.close()

    asyncio.run(main())
