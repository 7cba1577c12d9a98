"""Marks, locks, switches and the auditor's election."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import ConfigurationError, InvalidNameError, MetadataVersionError, RecordNotFoundError
from ledger.metadata.errors import LockLostError
from ledger.metadata.repair_store import RepairStore, UnderReplicated
from ledger.model import BookieId, LedgerId, Versioned
from tests.helpers.metadata.drivers import B1, B2, B3, Driver, eventually, eventually_async, on_loop

L7 = LedgerId(7)


async def listed(repair: RepairStore) -> list[UnderReplicated]:
    return [mark async for mark in repair.marks()]


@on_loop
async def test_a_marked_ledger_is_listed_with_what_is_missing(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    assert await listed(other) == []
    await repair.mark(LedgerId(4294967301), [B1], 5)
    await repair.mark(L7, [B2, B1], 6)
    assert await listed(other) == [
        UnderReplicated(L7, (B1, B2), 6),
        UnderReplicated(LedgerId(4294967301), (B1,), 5),
    ]


@on_loop
async def test_a_second_mark_is_added_to_the_first_and_keeps_its_time(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    await repair.mark(L7, [B1], 5)
    await other.mark(L7, [B1, B2], 9)
    assert (await repair.read_mark(L7)).value == UnderReplicated(L7, (B1, B2), 5)


@on_loop
async def test_many_ledgers_can_be_marked_at_once_from_two_sides(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    await asyncio.gather(
        *(repair.mark(LedgerId(number), [B1], 1) for number in range(20)),
        *(other.mark(LedgerId(number), [B2], 1) for number in range(20)),
    )
    found = await listed(repair)
    assert [mark.ledger_id for mark in found] == list(range(20))
    assert all(set(mark.missing) == {B1, B2} for mark in found)


@on_loop
async def test_a_repaired_ledger_loses_its_mark(driver: Driver) -> None:
    repair = (await driver.cluster()).repair
    await repair.mark(L7, [B1], 5)
    lock = await repair.lock(L7, "worker")
    assert lock is not None
    await lock.clear_mark((await repair.read_mark(L7)).version)
    assert await listed(repair) == []
    with pytest.raises(RecordNotFoundError, match="mark of ledger 7"):
        await repair.read_mark(L7)
    await lock.clear_mark(0)  # somebody else was faster
    await lock.release()


@on_loop
async def test_a_ledger_marked_again_keeps_its_mark(driver: Driver) -> None:
    """Even with the same bookie: it may have been lost a second time after the worker looked."""
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    await repair.mark(L7, [B1], 5)
    lock = await repair.lock(L7, "worker")
    assert lock is not None
    version = (await repair.read_mark(L7)).version
    await other.mark(L7, [B1], 6)
    with pytest.raises(MetadataVersionError, match="ledger 7 was marked again"):
        await lock.clear_mark(version)
    assert len(await listed(repair)) == 1


@on_loop
async def test_one_worker_at_a_time_has_a_ledgers_lock(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    lock = await repair.lock(L7, "first")
    assert lock is not None and lock.ledger_id == L7 and await lock.is_held()
    assert await other.lock(L7, "second") is None
    assert await repair.lock(L7, "another task") is None
    assert await other.lock_holder(L7) == "first"
    assert await other.lock(LedgerId(8), "second") is not None
    await lock.release()
    assert not await lock.is_held()
    assert await other.lock_holder(L7) is None
    assert await other.lock(L7, "second") is not None
    await lock.release()
    assert await other.lock_holder(L7) == "second"


@on_loop
async def test_the_lock_of_a_worker_that_is_gone_is_free_and_worth_nothing(driver: Driver) -> None:
    store, other = await driver.cluster(), (await driver.open()).repair
    await store.repair.mark(L7, [B1], 5)
    lock = await store.repair.lock(L7, "first")
    assert lock is not None
    await store.close()

    async def taken() -> bool:
        return await other.lock(L7, "second") is not None

    await eventually_async(taken)
    assert await other.lock_holder(L7) == "second"
    assert len(await listed(other)) == 1


@on_loop
async def test_a_mark_is_cleared_only_under_the_lock(driver: Driver) -> None:
    repair = (await driver.cluster()).repair
    await repair.mark(L7, [B1], 5)
    lock = await repair.lock(L7, "worker")
    assert lock is not None
    await lock.release()
    with pytest.raises(LockLostError, match="ledger 7"):
        await lock.clear_mark((await repair.read_mark(L7)).version)
    assert len(await listed(repair)) == 1


@on_loop
async def test_a_new_mark_is_told(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    told: list[int] = []
    store.repair.watch_marks(lambda: told.append(1))
    assert await listed(store.repair) == []
    await other.repair.mark(L7, [B1], 5)
    await eventually(lambda: bool(told))


@on_loop
async def test_repair_is_on_until_it_is_switched_off(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    told: list[int] = []
    unwatch = other.watch_switches(lambda: told.append(1))
    assert await other.enabled()
    for _ in range(2):
        await repair.set_enabled(False)
        assert not await other.enabled()
    await eventually(lambda: bool(told))
    unwatch()
    for _ in range(2):
        await repair.set_enabled(True)
        assert await other.enabled()


@on_loop
async def test_the_delay_of_a_lost_bookie_is_told_even_if_it_is_the_same(driver: Driver) -> None:
    """Setting it to what it is asks for an audit now."""
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    assert await repair.lost_bookie_delay_s() is None
    await repair.set_lost_bookie_delay_s(60)
    told: list[int] = []
    other.watch_switches(lambda: told.append(1))
    before = await other.lost_bookie_delay_s()
    assert before is not None and before.value == 60
    await repair.set_lost_bookie_delay_s(60)
    await eventually(lambda: bool(told))
    assert await other.lost_bookie_delay_s() == Versioned(60, before.version + 1)


@on_loop
@pytest.mark.parametrize("delay_s", [-1, 2**31, 10**20])
async def test_a_delay_that_cannot_be_read_back_is_not_stored(driver: Driver, delay_s: int) -> None:
    """One such value in the store would end the work of every auditor."""
    repair = (await driver.cluster()).repair
    await repair.set_lost_bookie_delay_s(60)
    with pytest.raises(ConfigurationError, match=f"must be 0 to 2147483647 s, got {delay_s}"):
        await repair.set_lost_bookie_delay_s(delay_s)
    found = await repair.lost_bookie_delay_s()
    assert found is not None and found.value == 60


@on_loop
async def test_the_time_of_the_last_check_is_kept(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    assert await repair.all_checked_ms() is None
    await repair.set_all_checked_ms(1_700_000_000_000)
    await repair.set_all_checked_ms(1_700_000_000_001)
    assert await other.all_checked_ms() == 1_700_000_000_001
    assert await other.placement_checked_ms() is None
    await repair.set_placement_checked_ms(1_700_000_000_002)
    assert await other.placement_checked_ms() == 1_700_000_000_002
    assert await other.all_checked_ms() == 1_700_000_000_001


@on_loop
async def test_the_first_candidate_is_the_auditor(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    assert await repair.auditor() is None
    first, second = await repair.stand("host-1:1"), await other.stand("host-2:2")
    assert await first.is_elected() and not await second.is_elected()
    assert await other.auditor() == "host-1:1"


@on_loop
async def test_the_next_candidate_is_told_when_the_auditor_withdraws(driver: Driver) -> None:
    repair, other = (await driver.cluster()).repair, (await driver.open()).repair
    first, second = await repair.stand("host-1:1"), await other.stand("host-2:2")
    told: list[int] = []
    second.watch(lambda: told.append(1))
    assert not await second.is_elected()
    await first.close()
    await eventually(lambda: bool(told))
    assert await second.is_elected()
    assert not await first.is_elected()  # it stands again, behind the other
    assert await repair.auditor() == "host-2:2"


@on_loop
async def test_the_next_candidate_is_elected_when_the_auditor_is_gone(driver: Driver) -> None:
    store, other = await driver.cluster(), (await driver.open()).repair
    await store.repair.stand("host-1:1")
    second = await other.stand("host-2:2")
    await store.close()
    await eventually_async(second.is_elected)
    assert await other.auditor() == "host-2:2"


@on_loop
async def test_a_candidates_name_is_that_of_a_bookie(driver: Driver) -> None:
    repair = (await driver.cluster()).repair
    with pytest.raises(InvalidNameError, match="not valid"):
        await repair.stand("no name")


@on_loop
async def test_a_formatted_cluster_has_no_marks_and_no_switches(driver: Driver) -> None:
    store = await driver.cluster()
    await store.repair.mark(L7, [B3], 5)
    await store.repair.set_enabled(False)
    await store.repair.set_lost_bookie_delay_s(9)
    await store.format_cluster()
    assert await listed(store.repair) == []
    assert await store.repair.enabled()
    assert await store.repair.lost_bookie_delay_s() is None
    await store.repair.mark(L7, [BookieId("b-1")], 6)
    assert len(await listed(store.repair)) == 1
