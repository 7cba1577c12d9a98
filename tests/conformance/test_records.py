"""Generic compare-and-set records."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import (
    AlreadyExistsError,
    ConfigurationError,
    InvalidNameError,
    MetadataVersionError,
    RecordNotFoundError,
)
from tests.helpers.metadata.drivers import Driver, new_metadata, on_loop


@on_loop
async def test_a_record_goes_through_its_versions(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    assert await store.create_record("/dlog/a", b"zero") == 0
    assert await other.write_record("/dlog/a", b"one", 0) == 1
    found = await store.read_record("/dlog/a")
    assert (found.value, found.version) == (b"one", 1)
    assert (await store.read_record("/dlog/a", fresh=False)).value in (b"zero", b"one")


@on_loop
async def test_any_bytes_can_be_stored(driver: Driver) -> None:
    store = await driver.cluster()
    for index, value in enumerate((b"", bytes(range(256)), b"x" * 900_000)):
        await store.create_record(f"/v/{index}", value)
        assert (await store.read_record(f"/v/{index}")).value == value


@on_loop
async def test_refusals_change_nothing(driver: Driver) -> None:
    store = await driver.cluster()
    await store.create_record("/a", b"zero")
    with pytest.raises(AlreadyExistsError):
        await store.create_record("/a", b"other")
    with pytest.raises(MetadataVersionError):
        await store.write_record("/a", b"other", 1)
    with pytest.raises(MetadataVersionError):
        await store.remove_record("/a", 1)
    found = await store.read_record("/a")
    assert (found.value, found.version) == (b"zero", 0)


@on_loop
@pytest.mark.parametrize("version", [2**31, 2**63])
async def test_a_version_that_no_record_can_have_is_another_one(driver: Driver, version: int) -> None:
    store = await driver.cluster()
    await store.create_record("/a", b"zero")
    ledger_id, _ = await store.create_new_ledger(new_metadata())
    metadata = (await store.read_ledger(ledger_id)).value
    for call in (
        store.write_record("/a", b"other", version),
        store.remove_record("/a", version),
        store.write_ledger(ledger_id, metadata, version),
        store.remove_ledger(ledger_id, version),
    ):
        with pytest.raises(MetadataVersionError):
            await call
    found = await store.read_record("/a")
    assert (found.value, found.version) == (b"zero", 0)
    assert (await store.read_ledger(ledger_id)).version == 0


@on_loop
async def test_missing_records_are_named(driver: Driver) -> None:
    store = await driver.cluster()
    for call in (
        store.read_record("/dlog/none"),
        store.write_record("/dlog/none", b"", 0),
        store.remove_record("/dlog/none", 0),
    ):
        with pytest.raises(RecordNotFoundError, match="/dlog/none"):
            await call


@on_loop
async def test_a_removed_record_refuses_its_old_writer(driver: Driver) -> None:
    store = await driver.cluster()
    await store.create_record("/a", b"")
    await store.write_record("/a", b"", 0)
    await store.remove_record("/a", 1)
    with pytest.raises(RecordNotFoundError):
        await store.write_record("/a", b"late", 1)


@on_loop
async def test_a_write_keeps_the_key_and_raises_the_version_by_one(driver: Driver) -> None:
    """A driver that wrote by removing and creating would start again at version 0."""
    store = await driver.cluster()
    await store.create_record("/a", b"")
    assert [await store.write_record("/a", b"x", version) for version in range(20)] == list(range(1, 21))


@on_loop
async def test_of_many_writers_one_wins_each_version(driver: Driver) -> None:
    stores = [await driver.cluster(), await driver.open(), await driver.open()]
    await stores[0].create_record("/a", b"start")
    winners: dict[int, bytes] = {}

    async def compete(name: bytes, index: int) -> None:
        store = stores[index % 3]
        while len(winners) < 60:
            found = await store.read_record("/a")
            try:
                version = await store.write_record("/a", name, found.version)
            except MetadataVersionError:
                continue
            assert version not in winners
            winners[version] = name

    await asyncio.gather(*(compete(b"w%d" % index, index) for index in range(6)))
    assert sorted(winners) == list(range(1, len(winners) + 1))
    assert (await stores[0].read_record("/a")).value == winners[max(winners)]


@on_loop
async def test_children_are_the_next_parts_of_keys(driver: Driver) -> None:
    """Names that sort between `a` and `a/`, deep trees, and a parent that is a record itself."""
    store = await driver.cluster()
    for key in ("/l/a", "/l/a/r/1", "/l/a/r/2", "/l/a-b", "/l/a.b/x", "/l/a0", "/l/b/c/d", "/m/z", "/lx"):
        await store.create_record(key, b"")
    assert await store.list_records("/l") == ["a", "a-b", "a.b", "a0", "b"]
    assert await store.list_records("/l/a") == ["r"]
    assert await store.list_records("/l/a/r") == ["1", "2"]
    assert await store.list_records("/l/a0") == []
    assert await store.list_records("/none") == []
    assert await store.list_records("/") == ["l", "lx", "m"]


@on_loop
async def test_malformed_keys_and_values_are_refused_before_the_store(driver: Driver) -> None:
    store = await driver.cluster()
    for key in (
        "",
        "a",
        "/",
        "/a/",
        "//a",
        "/a//b",
        "/a/../b",
        "/.",
        "/a b",
        "/a\0b",
        "/é",
        "/" + "x" * 1024,
    ):
        with pytest.raises(InvalidNameError):
            await store.create_record(key, b"")
        with pytest.raises(InvalidNameError):
            await store.read_record(key)
    with pytest.raises(ConfigurationError, match="1047552"):
        await store.create_record("/a", bytes(1024 * 1024))
