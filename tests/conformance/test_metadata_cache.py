"""The metadata cache follows changes that other clients make, on every driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dlog.cache.metadata_cache import MetadataCache
from dlog.cache.snapshot import Disappeared, MetadataSnapshot
from dlog.core.metadata_changes import with_orphan_barred
from dlog.core.metadata_update import Applied
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from ledger.environment import SystemEnvironment
from ledger.model import EntryId, LedgerId
from tests.helpers.metadata.drivers import B1, B2, Driver, bookie, eventually, new_metadata, on_loop

ORDERS, OTHERS = LogName(namespace="default", name="orders"), LogName(namespace="default", name="others")


class Changed:
    """What a listener has seen."""

    def __init__(self, cache: MetadataCache) -> None:
        self.snapshots: list[MetadataSnapshot] = []
        self.disappeared: list[Disappeared] = []
        cache.on_change(self._note)

    def _note(self, snapshot: MetadataSnapshot, disappeared: Disappeared) -> None:
        self.snapshots.append(snapshot)
        self.disappeared.append(disappeared)


@asynccontextmanager
async def cached(driver: Driver) -> AsyncIterator[tuple[MetadataCache, LogMetadataStore]]:
    """A cache, and the logs of another client."""
    store, other = await driver.cluster(), await driver.open()
    environment = SystemEnvironment()
    logs = LogMetadataStore(store, environment)
    async with MetadataCache(store, logs, environment, "default") as cache:
        yield cache, LogMetadataStore(other, environment)


async def shows(cache: MetadataCache, condition: Callable[[MetadataSnapshot], bool]) -> None:
    await eventually(lambda: condition(cache.snapshot))


@on_loop
async def test_bookies_come_and_go(driver: Driver) -> None:
    async with cached(driver) as (cache, _):
        other = await driver.open()
        assert cache.snapshot.cluster_id == await other.instance_id()
        assert cache.snapshot.layout == await other.layout()
        registration = await other.register_bookie(bookie(B1))
        await shows(cache, lambda snapshot: snapshot.contains_bookie(B1))
        changed = Changed(cache)
        await registration.close()
        await shows(cache, lambda snapshot: not snapshot.contains_bookie(B1))
        assert changed.disappeared[-1].bookies == {B1}


@on_loop
async def test_a_log_is_followed_from_before_its_creation_to_its_next_life(driver: Driver) -> None:
    async with cached(driver) as (cache, logs):
        await cache.follow_logs([ORDERS, OTHERS])
        assert not cache.snapshot.logs
        first = await logs.create(ORDERS)
        await shows(cache, lambda snapshot: snapshot.contains_log(ORDERS))
        read = await logs.read(first)
        for orphan in (5, 6, 7):
            answer = await logs.compare_and_set(
                first, with_orphan_barred(read.value, LedgerId(orphan), orphan), read.version
            )
            assert isinstance(answer, Applied)
            read = await logs.read(first)
        await shows(cache, lambda snapshot: snapshot.logs[ORDERS].record.last_ledger_id == 7)
        changed = Changed(cache)
        await logs.end_name(first)
        await shows(cache, lambda snapshot: not snapshot.contains_log(ORDERS))
        assert changed.disappeared[-1].logs == {ORDERS}
        second = await logs.create(ORDERS)
        await shows(cache, lambda snapshot: snapshot.contains_log(ORDERS))
        assert cache.snapshot.logs[ORDERS].ref == second
        read = await logs.read(second)
        await logs.compare_and_set(second, with_orphan_barred(read.value, LedgerId(9), 1), read.version)
        await shows(cache, lambda snapshot: snapshot.logs[ORDERS].record.last_ledger_id == 9)


@on_loop
async def test_a_ledger_is_followed_until_it_is_removed(driver: Driver) -> None:
    async with cached(driver) as (cache, _):
        other = await driver.open()
        await cache.follow_ledgers([LedgerId(5)])
        await other.create_ledger(LedgerId(5), new_metadata())
        await shows(cache, lambda snapshot: snapshot.contains_ledger(LedgerId(5)))
        await other.write_ledger(LedgerId(5), new_metadata().closed_at(EntryId(1), 10), 0)
        await shows(cache, lambda snapshot: snapshot.ledgers[LedgerId(5)].value.closed)
        endpoints = cache.snapshot.endpoints(LedgerId(5), 0)
        assert endpoints is not None and {each.info for each in endpoints} == {None}
        await other.remove_ledger(LedgerId(5))
        await shows(cache, lambda snapshot: not snapshot.contains_ledger(LedgerId(5)))


@on_loop
async def test_what_is_forgotten_is_no_longer_followed(driver: Driver) -> None:
    async with cached(driver) as (cache, logs):
        other = await driver.open()
        await other.create_ledger(LedgerId(5), new_metadata())
        await logs.create(ORDERS)
        await cache.follow_logs([ORDERS])
        await cache.follow_ledgers([LedgerId(5)])
        assert cache.snapshot.contains_log(ORDERS) and cache.snapshot.contains_ledger(LedgerId(5))
        cache.forget(ORDERS)
        cache.forget(LedgerId(5))
        assert not cache.snapshot.logs and not cache.snapshot.ledgers
        await other.write_ledger(LedgerId(5), new_metadata().closed_at(EntryId(1), 10), 0)
        await other.register_bookie(bookie(B2))
        await shows(cache, lambda snapshot: snapshot.contains_bookie(B2))
        assert not cache.snapshot.ledgers


@on_loop
async def test_many_logs_are_followed_with_few_snapshots(driver: Driver) -> None:
    names = [LogName(namespace="default", name=f"log-{number}") for number in range(40)]
    async with cached(driver) as (cache, logs):
        await asyncio.gather(*(logs.create(name) for name in names))
        changed = Changed(cache)
        await cache.follow_logs(names)
        assert set(cache.snapshot.logs) == set(names)
        assert len(changed.snapshots) == 2  # 32 reads at the same time
