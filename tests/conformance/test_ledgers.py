"""Ledgers: ids, create with cToken, compare-and-set, remove, iterate."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ledger.errors import (
    AlreadyExistsError,
    InvalidNameError,
    LedgerNotFoundError,
    MetadataVersionError,
)
from ledger.model import EntryId, LedgerId, LedgerState
from tests.helpers.metadata.drivers import B1, Driver, bookie, new_metadata, on_loop


@on_loop
async def test_ids_are_unique_and_rise(driver: Driver) -> None:
    """Two handles draw ids at once: all differ, and each one's own rise in the order they were asked for."""
    stores = [await driver.cluster(), await driver.open()]
    drawn = await asyncio.gather(*(store.new_ledger_id() for store in stores for _ in range(150)))
    assert len(set(drawn)) == 300
    later = [await stores[0].new_ledger_id(), await stores[1].new_ledger_id()]
    assert max(drawn) < later[0] < later[1]


@on_loop
async def test_a_new_ledger_gets_an_id_of_its_own(driver: Driver) -> None:
    """Ids of create_new_ledger and of new_ledger_id are one rising sequence; one taken by hand is left alone."""
    stores = [await driver.cluster(), await driver.open()]
    first = await stores[0].new_ledger_id()
    await stores[0].create_ledger(LedgerId(first + 1), new_metadata())
    made = await asyncio.gather(
        *(store.create_new_ledger(new_metadata()) for store in stores for _ in range(20))
    )
    assert len({ledger_id for ledger_id, _ in made}) == 40
    assert min(ledger_id for ledger_id, _ in made) == first + 2
    assert await stores[1].new_ledger_id() > max(ledger_id for ledger_id, _ in made)
    for ledger_id, version in made:
        assert (await stores[0].read_ledger(ledger_id)).version == version == 0


@on_loop
async def test_ids_survive_reopening_format_and_nuke(driver: Driver) -> None:
    store = await driver.cluster()
    first = await store.new_ledger_id()
    await store.create_ledger(first, new_metadata())
    await store.remove_ledger(first)
    second = await store.new_ledger_id()
    await store.format_cluster()
    third = await store.new_ledger_id()
    await store.nuke_cluster(await store.instance_id())
    await store.init_cluster()
    fourth = await (await driver.open()).new_ledger_id()
    assert first < second < third < fourth


@on_loop
async def test_ids_continue_above_what_a_bookie_has_stored(driver: Driver) -> None:
    """As after a restore of an older backup: the ids given out since then are not given out again."""
    store, other = await driver.cluster(), await driver.open()

    async def register(*stored: int) -> None:
        def newest(limit: int) -> int | None:
            return max((each for each in stored if each <= limit), default=None)

        await store.register_bookie(bookie(B1), newest_ledger=newest)

    first = await store.new_ledger_id()
    await register(first + 30)
    assert await other.new_ledger_id() == first + 31
    await register(first + 2030 * 2)
    far = await other.new_ledger_id()
    assert far > first + 2030 * 2
    for unchanged in (first + 30, 2**50):  # below those given out, and above any that can have been
        await register(unchanged)
    last = await other.new_ledger_id()
    assert far < last < far + 4
    # What a client stored under an id that it has not drawn hides no other one.
    await register(last + 30, 2**50, 2**63 - 1)
    assert last + 30 < await other.new_ledger_id() < last + 34


@on_loop
async def test_a_created_ledger_is_read_back_at_version_0(driver: Driver) -> None:
    store = await driver.cluster()
    wanted = new_metadata(c_token=7, custom=(("app", b"\x00\xff"),))
    assert await store.create_ledger(LedgerId(5), wanted) == 0
    found = await (await driver.open()).read_ledger(LedgerId(5))
    assert (found.value, found.version) == (wanted, 0)


@on_loop
async def test_many_ledgers_are_looked_at_together(driver: Driver) -> None:
    """Those that are missing are left out; the order of the ids does not matter."""
    store = await driver.cluster()
    for ledger_id in (3, 900, 7):
        await store.create_ledger(LedgerId(ledger_id), new_metadata(c_token=ledger_id))
    metadata = (await store.read_ledger(LedgerId(7))).value
    await store.write_ledger(LedgerId(7), metadata.closed_at(EntryId(4), 50), 0)
    found = await store.glance_at_ledgers([LedgerId(each) for each in (900, 8, 3, 7)])
    assert {ledger_id: (each.value.c_token, each.version) for ledger_id, each in found.items()} == {
        900: (900, 0),
        3: (3, 0),
        7: (0, 1),
    }
    assert found[LedgerId(7)].value.last_entry == 4
    assert await store.glance_at_ledgers([]) == {}


@on_loop
async def test_more_ledgers_than_fit_into_one_request_are_looked_at_together(driver: Driver) -> None:
    store = await driver.cluster()
    made = [(await store.create_new_ledger(new_metadata()))[0] for _ in range(70)]
    removed = made.pop(65)
    await store.remove_ledger(removed)
    found = await store.glance_at_ledgers([*made, removed])
    assert sorted(found) == made


@on_loop
async def test_create_without_a_token_gets_one(driver: Driver) -> None:
    store = await driver.cluster()
    await store.create_ledger(LedgerId(1), new_metadata())
    assert (await store.read_ledger(LedgerId(1))).value.c_token


@on_loop
async def test_a_repeated_create_is_recognised_by_its_token(driver: Driver) -> None:
    """The answer to a create was lost and the create is sent again: that is success. Another's is not."""
    store = await driver.cluster()
    await store.create_ledger(LedgerId(5), new_metadata(c_token=7))
    assert await store.create_ledger(LedgerId(5), new_metadata(c_token=7)) == 0
    with pytest.raises(AlreadyExistsError):
        await store.create_ledger(LedgerId(5), new_metadata(c_token=8))


@on_loop
async def test_the_token_is_removed_by_a_rewrite(driver: Driver) -> None:
    """A rewrite resets the token, so a create that comes later is no repetition, and token 0 names nobody."""
    store = await driver.cluster()
    await store.create_ledger(LedgerId(5), new_metadata(c_token=7))
    await store.write_ledger(LedgerId(5), new_metadata(c_token=7), 0)
    assert (await store.read_ledger(LedgerId(5))).value.c_token == 0
    for token in (7, 0):
        with pytest.raises(AlreadyExistsError):
            await store.create_ledger(LedgerId(5), new_metadata(c_token=token))


@on_loop
async def test_older_formats_have_no_token_to_recognise(driver: Driver) -> None:
    store = await driver.cluster()
    old = replace(new_metadata(), format_version=2)
    await store.create_ledger(LedgerId(5), old)
    with pytest.raises(AlreadyExistsError):
        await store.create_ledger(LedgerId(5), old)
    await store.write_ledger(LedgerId(5), old.with_state(LedgerState.IN_RECOVERY), 0)
    assert (await store.read_ledger(LedgerId(5))).value.format_version == 2


@on_loop
async def test_a_write_needs_the_present_version(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    await store.create_ledger(LedgerId(5), new_metadata())
    closed = new_metadata().closed_at(EntryId(9), 90)
    assert await other.write_ledger(LedgerId(5), closed, 0) == 1
    with pytest.raises(MetadataVersionError) as caught:
        await store.write_ledger(LedgerId(5), new_metadata(), 0)
    assert (caught.value.key, caught.value.expected) == (5, 0)
    found = await store.read_ledger(LedgerId(5))
    assert (found.value.state, found.value.last_entry, found.version) == (LedgerState.CLOSED, 9, 1)


@on_loop
async def test_of_many_writers_one_wins_each_version(driver: Driver) -> None:
    stores = [await driver.cluster(), await driver.open()]
    await stores[0].create_ledger(LedgerId(5), new_metadata())
    for version in range(10):
        results = await asyncio.gather(
            *(stores[i % 2].write_ledger(LedgerId(5), new_metadata(), version) for i in range(8)),
            return_exceptions=True,
        )
        refused = [result for result in results if isinstance(result, MetadataVersionError)]
        assert [result for result in results if result not in refused] == [version + 1]


@on_loop
async def test_missing_ledgers_are_named(driver: Driver) -> None:
    store = await driver.cluster()
    for call in (
        store.read_ledger(LedgerId(404)),
        store.write_ledger(LedgerId(404), new_metadata(), 0),
        store.remove_ledger(LedgerId(404)),
        store.remove_ledger(LedgerId(404), 3),
    ):
        with pytest.raises(LedgerNotFoundError, match="404"):
            await call


@on_loop
async def test_remove_compares_the_version_when_given_one(driver: Driver) -> None:
    store = await driver.cluster()
    await store.create_ledger(LedgerId(5), new_metadata())
    await store.write_ledger(LedgerId(5), new_metadata(), 0)
    with pytest.raises(MetadataVersionError):
        await store.remove_ledger(LedgerId(5), 0)
    await store.remove_ledger(LedgerId(5), 1)
    with pytest.raises(LedgerNotFoundError):
        await store.read_ledger(LedgerId(5))


@on_loop
async def test_ids_outside_the_range_are_refused(driver: Driver) -> None:
    store = await driver.cluster()
    for ledger_id in (-1, 2**63):
        with pytest.raises(InvalidNameError):
            await store.read_ledger(LedgerId(ledger_id))


@on_loop
async def test_thousands_of_ledgers_are_listed_in_order(driver: Driver) -> None:
    """More than two pages, created out of order, short and long ids alike."""
    store = await driver.cluster()
    ids = [LedgerId((index * 7919) % 2503) for index in range(2503)] + [LedgerId(2**32), LedgerId(2**63 - 1)]
    await asyncio.gather(*(store.create_ledger(ledger_id, new_metadata()) for ledger_id in ids))
    assert [ledger_id async for ledger_id in store.ledger_ids()] == sorted(ids)


@on_loop
async def test_listing_goes_on_while_ledgers_come_and_go(driver: Driver) -> None:
    store = await driver.cluster()
    await asyncio.gather(*(store.create_ledger(LedgerId(index), new_metadata()) for index in range(1200)))
    seen = []
    async for ledger_id in store.ledger_ids():
        seen.append(ledger_id)
        if ledger_id == 10:
            await store.remove_ledger(LedgerId(1100))
            await store.create_ledger(LedgerId(5000), new_metadata())
    assert seen == [*sorted(set(range(1200)) - {1100}), 5000]


@on_loop
async def test_an_empty_cluster_lists_no_ledgers(driver: Driver) -> None:
    store = await driver.cluster()
    assert [ledger_id async for ledger_id in store.ledger_ids()] == []
