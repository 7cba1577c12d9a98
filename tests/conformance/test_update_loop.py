"""The ledger update loop, above all what it makes of lost answers, on every driver."""

from __future__ import annotations

import itertools

import pytest

from ledger.environment import SystemEnvironment
from ledger.errors import LedgerNotFoundError, MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.store import MetadataStore
from ledger.metadata.update_loop import Local, update_ledger
from ledger.model import EntryId, LedgerId, LedgerMetadata, LedgerState
from tests.helpers.metadata.drivers import Driver, new_metadata, on_loop
from tests.helpers.metadata.lossy_store import Fate, LossyStore

L = LedgerId(5)


def close_at_9(metadata: LedgerMetadata) -> LedgerMetadata:
    return metadata.closed_at(EntryId(9), 90)


def is_open(metadata: LedgerMetadata) -> bool:
    return not metadata.closed


async def created(store: MetadataStore, ledger_id: LedgerId = L) -> Local:
    await store.create_ledger(ledger_id, new_metadata())
    return await store.read_ledger(ledger_id)


@on_loop
async def test_a_fresh_copy_is_updated_with_one_write(driver: Driver) -> None:
    store = await driver.cluster()
    local = await created(store)
    result = await update_ledger(store, L, local, is_open, close_at_9, SystemEnvironment())
    assert result == await store.read_ledger(L)
    assert (result.value.state, result.version) == (LedgerState.CLOSED, 1)


@on_loop
async def test_a_stale_copy_is_read_again(driver: Driver) -> None:
    """Somebody else marked it IN_RECOVERY; the transform is applied to that."""
    store = await driver.cluster()
    local = await created(store)
    await store.write_ledger(L, local.value.with_state(LedgerState.IN_RECOVERY), 0)
    seen: list[LedgerState] = []

    def transform(metadata: LedgerMetadata) -> LedgerMetadata:
        seen.append(metadata.state)
        return close_at_9(metadata)

    result = await update_ledger(store, L, local, is_open, transform, SystemEnvironment())
    assert (result.version, seen) == (2, [LedgerState.OPEN, LedgerState.IN_RECOVERY])


@on_loop
async def test_nothing_is_written_when_it_is_as_wanted(driver: Driver) -> None:
    store = await driver.cluster()
    local = await created(store)
    await store.write_ledger(L, local.value.closed_at(EntryId(3), 30), 0)
    result = await update_ledger(store, L, local, is_open, close_at_9, SystemEnvironment())
    assert (result.value.last_entry, result.version) == (3, 1)


@on_loop
async def test_a_deleted_ledger_ends_the_loop(driver: Driver) -> None:
    store = await driver.cluster()
    local = await created(store)
    await store.remove_ledger(L)
    with pytest.raises(LedgerNotFoundError):
        await update_ledger(store, L, local, is_open, close_at_9, SystemEnvironment())


@on_loop
async def test_lost_answers_are_settled_whatever_became_of_the_write(driver: Driver) -> None:
    """Every sequence of some lost answers ends with exactly one change, and we know it."""
    store = await driver.cluster()
    lost = (Fate.APPLIED, Fate.DROPPED, Fate.LATE)
    lengths = range(1, 6 if driver.uri.startswith("memory") else 3)
    scripts = [fates for length in lengths for fates in itertools.product(lost, repeat=length)]
    for index, fates in enumerate(scripts):
        ledger_id = LedgerId(100 + index)
        local = await created(store, ledger_id)
        lossy = LossyStore(store, fates)
        result = await update_ledger(lossy, ledger_id, local, is_open, close_at_9, SystemEnvironment())
        await lossy.settle()
        assert result == await store.read_ledger(ledger_id), fates
        assert (result.value.last_entry, result.version) == (9, 1), fates


@on_loop
async def test_a_lost_write_that_lost_the_race_is_not_taken_for_ours(driver: Driver) -> None:
    """Dropped, and meanwhile somebody else closed the ledger elsewhere: their result stands."""
    store = await driver.cluster()
    local = await created(store)
    lossy = LossyStore(store, [Fate.DROPPED])

    def transform(metadata: LedgerMetadata) -> LedgerMetadata:
        return close_at_9(metadata)

    await store.write_ledger(L, local.value.closed_at(EntryId(3), 30), 0)
    result = await update_ledger(lossy, L, local, is_open, transform, SystemEnvironment())
    assert (result.value.last_entry, result.version, lossy.writes) == (3, 1, 1)


@on_loop
async def test_a_store_that_fails_after_a_lost_answer_leaves_it_unknown(driver: Driver) -> None:
    """It must not come out as Unavailable, which would mean that nothing was changed."""
    store = await driver.cluster()
    local = await created(store)
    lossy = LossyStore(store, [Fate.APPLIED])
    lossy.read_error = MetadataUnavailableError("gone")
    with pytest.raises(MetadataOutcomeUnknownError):
        await update_ledger(lossy, L, local, is_open, close_at_9, SystemEnvironment())


@on_loop
async def test_answers_that_stay_lost_leave_it_unknown(driver: Driver) -> None:
    store = await driver.cluster()
    local = await created(store)
    with pytest.raises(MetadataOutcomeUnknownError):
        await update_ledger(
            LossyStore(store, [Fate.DROPPED] * 100), L, local, is_open, close_at_9, SystemEnvironment()
        )
