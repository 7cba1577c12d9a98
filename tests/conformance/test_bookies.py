"""Registration and cookies."""

from __future__ import annotations

import pytest

from ledger.errors import (
    AlreadyExistsError,
    InvalidNameError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.errors import ClusterInUseError
from ledger.metadata.known_bookies import is_member
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo, BookieSet
from tests.helpers.metadata.drivers import B1, B2, B3, Driver, bookie, eventually_async, on_loop

NO_PORT = 70000
"""A bookie that publishes this cannot be reached."""


def ids(found: BookieSet) -> tuple[list[BookieId], list[BookieId]]:
    return [info.bookie_id for info in found.writable], [info.bookie_id for info in found.read_only]


@on_loop
async def test_a_registered_bookie_is_seen_with_its_address(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    info = BookieInfo(bookie_id=BookieId("rack-1.b"), host="10.0.0.9", port=3999, properties=(("k", "v"),))
    await store.register_bookie(info)
    found = await other.bookies()
    assert found == BookieSet(writable=(info,))
    assert found.find(BookieId("rack-1.b")) == info


@on_loop
async def test_a_bookie_moves_between_the_lists(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    registration = await store.register_bookie(bookie(B1))
    await store.register_bookie(bookie(B2, read_only=True))
    assert ids(await other.bookies()) == ([B1], [B2])
    await registration.set_read_only(True)
    assert ids(await other.bookies()) == ([], [B1, B2])
    await registration.set_read_only(True)
    await registration.set_read_only(False)
    assert ids(await other.bookies()) == ([B1], [B2])


@on_loop
async def test_a_bookie_that_publishes_nonsense_is_registered_all_the_same(driver: Driver) -> None:
    """It hides no other one, and has no address; but it runs, so its cluster is in use."""
    store, other = await driver.cluster(), await driver.open()
    await store.register_bookie(bookie(B1))
    await store.register_bookie(bookie(B2, port=NO_PORT))
    found = await other.bookies()
    assert ids(found) == ([B1], [])
    assert found.find(B2) is None
    assert [each.bookie_id for each in found.damaged] == [B2] and str(NO_PORT) in found.damaged[0].reason
    assert found.is_registered(B1) and found.is_registered(B2) and not found.is_registered(B3)
    assert await is_member(other, B2)
    with pytest.raises(ClusterInUseError, match=str(B2)):
        await other.nuke_cluster(await other.instance_id())
    await store.close()
    assert await other.bookies() == BookieSet()


def test_a_damaged_registration_is_logged_once_for_each_change(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """The list is read at each change of any bookie, and by repair every few seconds."""

    def logged() -> int:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        assert all(str(B1) in text and "left out" in text for text in found), found
        return len(found)

    @on_loop
    async def run(driver: Driver) -> None:
        store, other = await driver.cluster(), await driver.open()
        for port in (NO_PORT, NO_PORT + 1):
            await store.register_bookie(bookie(B1, port=port))
            for _ in range(3):
                await other.bookies()
            assert logged() == 1
        await store.register_bookie(bookie(B1))
        await other.bookies()
        assert logged() == 0
        await store.register_bookie(bookie(B1, port=NO_PORT))
        await eventually_async(lambda: _is_damaged(other))
        await other.bookies()
        assert logged() == 1

    run(driver=driver)


async def _is_damaged(store: MetadataStore) -> bool:
    return bool((await store.bookies()).damaged)


@on_loop
async def test_a_withdrawn_bookie_is_unregistered_when_close_returns(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    registration = await store.register_bookie(bookie(B1))
    await registration.close()
    assert await other.bookies() == BookieSet()
    await registration.close()
    await other.register_bookie(bookie(B1))


@on_loop
async def test_closing_the_store_ends_its_registrations(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    await store.register_bookie(bookie(B1))
    await store.register_bookie(bookie(B2, read_only=True))
    await store.close()
    assert await other.bookies() == BookieSet()


@on_loop
async def test_a_second_registration_of_a_live_id_is_refused(driver: Driver) -> None:
    """In either list, and the first one keeps its place and its address."""
    store, other = await driver.cluster(), await driver.open()
    registration = await store.register_bookie(bookie(B1, port=1111))
    for read_only in (False, True):
        with pytest.raises(AlreadyExistsError, match=str(B1)):
            await other.register_bookie(bookie(B1, port=2222, read_only=read_only))
    await registration.set_read_only(True)
    with pytest.raises(AlreadyExistsError):
        await other.register_bookie(bookie(B1, port=2222))
    assert [info.port for info in (await other.bookies()).read_only] == [1111]


@on_loop
async def test_an_owner_may_register_again(driver: Driver) -> None:
    """A bookie that is not sure of its registration renews it."""
    store = await driver.cluster()
    await store.register_bookie(bookie(B1, port=1111))
    await store.register_bookie(bookie(B1, port=2222))
    assert [info.port for info in (await store.bookies()).writable] == [2222]


@on_loop
async def test_bookie_ids_are_checked(driver: Driver) -> None:
    store = await driver.cluster()
    for name in ("readonly", "a/b", "", "a b"):
        with pytest.raises(InvalidNameError):
            await store.register_bookie(bookie(BookieId(name)))
        with pytest.raises(InvalidNameError):
            await store.write_cookie(BookieId(name), b"", None)
        with pytest.raises(InvalidNameError):
            await store.read_cookie(BookieId(name))
        with pytest.raises(InvalidNameError):
            await store.remove_cookie(BookieId(name), 0)


@on_loop
async def test_cookies_are_versioned_values(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    with pytest.raises(RecordNotFoundError):
        await store.read_cookie(B1)
    assert await store.write_cookie(B1, b"5\none", None) == 0
    with pytest.raises(AlreadyExistsError):
        await other.write_cookie(B1, b"5\nother", None)
    assert await other.write_cookie(B1, b"5\ntwo", 0) == 1
    with pytest.raises(MetadataVersionError):
        await store.write_cookie(B1, b"5\nthree", 0)
    found = await store.read_cookie(B1)
    assert (found.value, found.version) == (b"5\ntwo", 1)


@on_loop
async def test_cookies_are_listed_and_removed(driver: Driver) -> None:
    store = await driver.cluster()
    await store.write_cookie(B2, b"", None)
    await store.write_cookie(B1, b"", None)
    assert await store.list_cookies() == [B1, B2]
    with pytest.raises(MetadataVersionError):
        await store.remove_cookie(B1, 1)
    await store.remove_cookie(B1, 0)
    assert await store.list_cookies() == [B2]
    with pytest.raises(RecordNotFoundError):
        await store.remove_cookie(B1, 0)


@on_loop
async def test_a_closed_handle_reports_it(driver: Driver) -> None:
    store = await driver.cluster()
    await store.close()
    await store.close()
    with pytest.raises(MetadataUnavailableError, match="closed"):
        await store.bookies()
    with pytest.raises(MetadataUnavailableError, match="closed"):
        store.watch_bookies(lambda: None)
