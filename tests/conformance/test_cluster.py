"""Init, format, nuke, layout, instance id."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import (
    AlreadyExistsError,
    LayoutMismatchError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.errors import ClusterInUseError
from ledger.metadata.format.layout import Layout, decode_layout
from ledger.model import LedgerId
from tests.helpers.metadata.drivers import B1, Driver, bookie, new_metadata, on_loop


@on_loop
async def test_a_store_without_a_cluster_reports_it(driver: Driver) -> None:
    """Opening makes nothing, and every use names the way out."""
    store = await driver.open()
    for call in (
        store.new_ledger_id(),
        store.create_ledger(LedgerId(1), new_metadata()),
        store.read_ledger(LedgerId(1)),
        store.create_record("/a", b""),
        store.list_records("/"),
        store.bookies(),
        store.format_cluster(),
    ):
        with pytest.raises(MetadataUnavailableError, match="dlog standalone"):
            await call
    with pytest.raises((RecordNotFoundError, MetadataUnavailableError)):
        await store.instance_id()


@on_loop
async def test_init_makes_a_cluster_once(driver: Driver) -> None:
    store = await driver.cluster()
    instance_id = await store.instance_id()
    assert len(instance_id) == 36
    assert decode_layout(await store.layout()) == Layout()
    with pytest.raises(AlreadyExistsError):
        await (await driver.open()).init_cluster()
    assert await store.instance_id() == instance_id


@on_loop
async def test_of_many_inits_one_succeeds(driver: Driver) -> None:
    stores = [await driver.open() for _ in range(5)]
    results = await asyncio.gather(*(store.init_cluster() for store in stores), return_exceptions=True)
    assert results.count(None) == 1
    assert sum(isinstance(result, AlreadyExistsError) for result in results) == 4


@on_loop
async def test_the_address_reopens_the_same_cluster(driver: Driver) -> None:
    store = await driver.cluster()
    again = await driver.reopen()
    assert await again.instance_id() == await store.instance_id()
    assert again.uri == store.uri
    await again.close()


@on_loop
async def test_format_empties_the_cluster_and_renames_it(driver: Driver) -> None:
    store = await driver.cluster()
    instance_id = await store.instance_id()
    await store.create_ledger(LedgerId(1), new_metadata())
    await store.create_record("/a", b"")
    await store.write_cookie(B1, b"", None)
    await store.format_cluster()
    assert await store.instance_id() != instance_id
    assert [ledger_id async for ledger_id in store.ledger_ids()] == []
    assert await store.list_records("/") == []
    assert await store.list_cookies() == []
    assert decode_layout(await store.layout()) == Layout()


@on_loop
async def test_nuke_wants_the_right_name(driver: Driver) -> None:
    store = await driver.cluster()
    await store.create_record("/a", b"")
    with pytest.raises(LayoutMismatchError):
        await store.nuke_cluster("another")
    with pytest.raises(LayoutMismatchError):
        await store.nuke_cluster(None)
    assert await store.list_records("/") == ["a"]
    await store.nuke_cluster(await store.instance_id())
    with pytest.raises(RecordNotFoundError):
        await store.instance_id()
    with pytest.raises(RecordNotFoundError):
        await store.layout()
    with pytest.raises(RecordNotFoundError):
        await store.nuke_cluster(None)
    await store.init_cluster()
    assert await store.list_records("/") == []


@on_loop
async def test_nuke_refuses_while_a_bookie_is_registered(driver: Driver) -> None:
    store = await driver.cluster()
    registration = await store.register_bookie(bookie(B1))
    with pytest.raises(
        ClusterInUseError, match=rf"{B1}.*: stop it first; one that was killed stays registered until"
    ):
        await store.nuke_cluster(await store.instance_id())
    await registration.close()
    await store.nuke_cluster(await store.instance_id())
