"""The cache when reads fail. That it follows changes on every driver: tests/conformance/test_metadata_cache.py."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from dlog.aio import connect
from dlog.cache.metadata_cache import _BOOKIES, MetadataCache
from dlog.cache.snapshot import Disappeared, MetadataSnapshot
from dlog.core.metadata_changes import with_orphan_barred
from dlog.core.metadata_keys import record_key
from dlog.format.log_metadata import encode_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from ledger.environment import SystemEnvironment
from ledger.errors import (
    ConfigurationError,
    InvalidNameError,
    LayoutMismatchError,
    MetadataUnavailableError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import BookieSet, LedgerId
from tests.helpers.metadata.drivers import eventually, new_metadata

ORDERS, OTHERS = LogName(namespace="default", name="orders"), LogName(namespace="default", name="others")
_names = itertools.count()


@asynccontextmanager
async def cached() -> AsyncIterator[tuple[MetadataCache, LogMetadataStore, MetadataStore]]:
    store = await open_store(f"memory:cache-{next(_names)}")
    await store.init_cluster()
    environment = SystemEnvironment()
    logs = LogMetadataStore(store, environment)
    try:
        async with MetadataCache(store, logs, environment, "default") as cache:
            yield cache, logs, store
    finally:
        await store.close()


async def change(logs: LogMetadataStore, ref: LogRef, orphan: int) -> None:
    read = await logs.read(ref)
    await logs.compare_and_set(ref, with_orphan_barred(read.value, LedgerId(orphan), orphan), read.version)


async def test_while_the_store_is_away_the_last_snapshot_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cached() as (cache, logs, _):
        ref = await logs.create(ORDERS)
        await cache.follow_logs([ORDERS])
        honest, asked = logs.find, 0

        async def away(log: LogName) -> LogRef:
            nonlocal asked
            asked += 1
            if asked <= 3:
                raise MetadataUnavailableError("the store is away")
            return await honest(log)

        monkeypatch.setattr(cache._logs, "find", away)
        with pytest.raises(MetadataUnavailableError):
            await cache.follow_logs([OTHERS])
        await change(logs, ref, 5)
        await eventually(lambda: asked >= 2)
        assert cache.snapshot.logs[ORDERS].record.last_ledger_id == -1
        await eventually(lambda: cache.snapshot.logs[ORDERS].record.last_ledger_id == 5)
        await logs.create(OTHERS)  # followed although the call failed
        await eventually(lambda: cache.snapshot.contains_log(OTHERS))


@pytest.mark.parametrize(
    "error", [MetadataUnavailableError("the store is away"), asyncio.CancelledError()], ids=repr
)
async def test_what_could_not_be_read_when_it_was_followed_is_read_later(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Nothing changes in it afterwards, so no watch asks for the read."""
    async with cached() as (cache, logs, store):
        await logs.create(ORDERS)
        ledger_id, _ = await store.create_new_ledger(new_metadata())

        async def away(_: object) -> Any:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(cache._logs, "find", away)
            patched.setattr(store, "read_ledger", away)
            for follow in (cache.follow_logs([ORDERS]), cache.follow_ledgers([ledger_id])):
                with pytest.raises(type(error)):
                    await follow
        await eventually(lambda: cache.snapshot.contains_log(ORDERS))
        await eventually(lambda: cache.snapshot.contains_ledger(ledger_id))


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_read_that_was_overtaken_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    """The log is created or deleted, and read again, before the first read returns what was there before."""
    async with cached() as (cache, logs, _):
        await cache.follow_logs([OTHERS])
        before = await logs.create(ORDERS) if deleted else None
        honest, was_read, is_late = cache._read_log, asyncio.Event(), asyncio.Event()

        async def read(log: LogName) -> Any:
            found = await honest(log)
            if log == ORDERS and not was_read.is_set():
                was_read.set()
                await is_late.wait()
            return found

        monkeypatch.setattr(cache, "_read_log", read)
        following = asyncio.create_task(cache.follow_logs([ORDERS]))
        await was_read.wait()
        if before is None:
            await logs.create(ORDERS)
        else:
            await logs.end_name(before)
        await logs.create(OTHERS)
        await eventually(lambda: cache.snapshot.contains_log(OTHERS))  # then ORDERS was read again, too
        assert cache.snapshot.contains_log(ORDERS) != deleted
        is_late.set()
        await following
        assert cache.snapshot.contains_log(ORDERS) != deleted


async def test_a_damaged_record_is_in_the_snapshot_and_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cached() as (cache, logs, store):
        orders, others = await logs.create(ORDERS), await logs.create(OTHERS)
        await cache.follow_logs([ORDERS, OTHERS])
        before = cache.snapshot.log(ORDERS)
        value = (await store.read_record(record_key(logs.root, ORDERS, orders.log_uuid))).value
        await store.write_record(record_key(logs.root, ORDERS, orders.log_uuid), b"damaged", 0)
        await change(logs, others, 5)
        await eventually(lambda: cache.snapshot.logs[OTHERS].record.last_ledger_id == 5)
        await eventually(lambda: ORDERS in cache.snapshot.damaged)
        assert "cannot be decoded" in cache.snapshot.damaged[ORDERS]
        assert cache.snapshot.log(ORDERS) == before
        assert caplog.text == ""
        key = record_key(logs.root, ORDERS, orders.log_uuid)
        await store.write_record(key, value, (await store.read_record(key)).version)
        await eventually(lambda: not cache.snapshot.damaged)
        assert cache.snapshot.log(ORDERS) is not None


async def test_a_log_that_was_never_readable_is_only_among_the_damaged() -> None:
    async with cached() as (cache, logs, store):
        orders = await logs.create(ORDERS)
        await store.write_record(record_key(logs.root, ORDERS, orders.log_uuid), b"damaged", 0)
        await cache.follow_logs([ORDERS])
        assert set(cache.snapshot.damaged) == {ORDERS}
        assert not cache.snapshot.contains_log(ORDERS)
        cache.forget(ORDERS)
        assert not cache.snapshot.damaged


async def test_a_record_of_another_cluster_leaves_the_others_alone() -> None:
    """As a restored backup brings it."""
    async with cached() as (cache, logs, store):
        orders, others = await logs.create(ORDERS), await logs.create(OTHERS)
        await cache.follow_logs([ORDERS, OTHERS])
        read = await logs.read(orders)
        foreign = encode_record(replace(read.value, instance_id="another"))
        await store.write_record(record_key(logs.root, ORDERS, orders.log_uuid), foreign, read.version)
        await eventually(lambda: ORDERS in cache.snapshot.damaged)
        assert "belongs to cluster another" in cache.snapshot.damaged[ORDERS]
        await change(logs, others, 5)
        await eventually(lambda: cache.snapshot.logs[OTHERS].record.last_ledger_id == 5)


async def test_the_bookies_are_read_again_after_a_store_of_another_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cached() as (cache, _, store):
        honest, asked = store.bookies, 0

        async def other() -> BookieSet:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise LayoutMismatchError("another cluster is there")
            return await honest()

        monkeypatch.setattr(store, "bookies", other)
        cache._read_soon(_BOOKIES)
        await eventually(lambda: asked == 2)


async def test_two_that_follow_a_log_both_wait_for_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cached() as (cache, logs, _):
        await logs.create(ORDERS)
        honest, may_answer = logs.find, asyncio.Event()

        async def slow(log: LogName) -> LogRef:
            await may_answer.wait()
            return await honest(log)

        monkeypatch.setattr(logs, "find", slow)
        first = asyncio.create_task(cache.follow_logs([ORDERS]))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(may_answer.set)
        await cache.follow_logs([ORDERS])
        assert cache.snapshot.contains_log(ORDERS)
        await first


async def test_an_error_of_a_listener_is_raised_at_the_end() -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with cached() as (cache, logs, _):
            ref = await logs.create(ORDERS)
            await cache.follow_logs([ORDERS])
            cache.on_change(fail)
            await change(logs, ref, 5)
            assert cache._updating is not None
            await asyncio.wait([cache._updating], timeout=5.0)


async def test_a_listener_can_be_removed() -> None:
    async with cached() as (cache, logs, _):
        seen: list[object] = []
        remove = cache.on_change(lambda snapshot, disappeared: seen.append(snapshot))
        ref = await logs.create(ORDERS)
        await cache.follow_logs([ORDERS])
        assert len(seen) == 1
        remove()
        await change(logs, ref, 5)
        await eventually(lambda: cache.snapshot.logs[ORDERS].record.last_ledger_id == 5)
        assert len(seen) == 1
        remove()  # it may be called again


async def test_a_listener_that_changes_what_is_followed_does_not_change_the_order() -> None:
    async with cached() as (cache, logs, _):
        for log in (ORDERS, OTHERS):
            await logs.create(log)
        await cache.follow_logs([ORDERS])
        seen: list[tuple[bool, bool]] = []

        def forget(snapshot: MetadataSnapshot, disappeared: Disappeared) -> None:
            if snapshot.contains_log(ORDERS):
                cache.forget(ORDERS)

        def note(snapshot: MetadataSnapshot, disappeared: Disappeared) -> None:
            seen.append((snapshot.contains_log(ORDERS), snapshot.contains_log(OTHERS)))

        cache.on_change(forget)
        cache.on_change(note)
        await cache.follow_logs([OTHERS])
        assert seen == [(True, True), (False, True)]


async def test_after_the_error_of_a_listener_the_others_get_what_comes_next() -> None:
    async with cached() as (cache, logs, _):
        for log in (ORDERS, OTHERS):
            await logs.create(log)
        seen: list[MetadataSnapshot] = []

        def fail(*_: Any) -> None:
            raise ZeroDivisionError

        remove = cache.on_change(fail)
        cache.on_change(lambda snapshot, disappeared: seen.append(snapshot))
        with pytest.raises(ZeroDivisionError):
            await cache.follow_logs([ORDERS])
        remove()
        await cache.follow_logs([OTHERS])
        assert seen == [cache.snapshot]


async def test_a_cache_that_was_awaited_may_be_entered() -> None:
    """It is started once, so that its end is the end of all that it has begun."""
    async with cached() as (_, logs, store), connect(store.uri) as client:
        await logs.create(ORDERS)
        cache = await client.metadata_cache()
        await cache.follow_logs([ORDERS])
        updating = cache._updating
        async with cache:
            assert cache.snapshot.contains_log(ORDERS)
            assert cache._updating is updating
        assert updating is not None and updating.done()


async def test_a_change_ends_the_waits_for_it() -> None:
    async with cached() as (cache, logs, _):
        before = cache.snapshot
        waiting = [asyncio.create_task(cache.wait_for_change(before)) for _ in range(2)]
        await cache.follow_logs([ORDERS])  # it does not exist: nothing has changed
        assert cache.snapshot is before
        await logs.create(ORDERS)
        found = await asyncio.gather(*waiting)
        assert [each.contains_log("orders") for each in found] == [True, True]
        assert await cache.wait_for_change(before) is cache.snapshot


async def test_waits_end_when_no_change_can_follow() -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with cached() as (cache, logs, _):
            await cache.follow_logs([ORDERS])
            remove = cache.on_change(fail)
            before = cache.snapshot
            await logs.create(ORDERS)
            seen = await cache.wait_for_change(before)
            remove()
            waiting = asyncio.create_task(cache.wait_for_change(seen))
            with pytest.raises(ZeroDivisionError):
                await waiting
            assert cache._updating is not None and cache._updating.done()
    async with cached() as (cache, _, _):
        waiting = asyncio.create_task(cache.wait_for_change(cache.snapshot))
        await asyncio.sleep(0)
        await cache.close()
        with pytest.raises(ConfigurationError, match="is closed"):
            await waiting


async def test_before_its_start_a_cache_is_refused() -> None:
    async with cached() as (started, logs, store):
        cache = MetadataCache(store, logs, started._environment, "default")
        with pytest.raises(ConfigurationError, match="was not started"):
            cache.snapshot  # noqa: B018 - it raises
        with pytest.raises(ConfigurationError, match="was not started"):
            await cache.follow_logs([ORDERS])
        with pytest.raises(ConfigurationError, match=r"^listener must be a function"):
            started.on_change(None)  # type: ignore[arg-type]  # that is the point
        await cache.close()


async def test_closing_the_client_closes_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cached() as (_, _, store):
        async with connect(store.uri) as client:
            async with client.metadata_cache():
                pass
            cache = await client.metadata_cache()
            waiting = asyncio.create_task(cache.wait_for_change(cache.snapshot))
            honest, is_read, may_answer = store.bookies, asyncio.Event(), asyncio.Event()

            async def slow() -> BookieSet:
                is_read.set()
                await may_answer.wait()
                return await honest()

            monkeypatch.setattr(client.ledgers.store, "bookies", slow)
            opening = asyncio.create_task(client.metadata_cache())
            await is_read.wait()
        may_answer.set()
        for late in (waiting, opening, client.metadata_cache()):
            with pytest.raises(ConfigurationError, match="closed"):
                await late
        await cache.close()


@pytest.mark.parametrize("impossible", [-5, 2**63])
async def test_an_id_that_no_ledger_has_does_not_stop_the_cache(impossible: int) -> None:
    """A read of it fails each time, and so would everything that is read together with it."""
    async with cached() as (cache, logs, store):
        ref = await logs.create(ORDERS)
        ledger_id, _ = await store.create_new_ledger(new_metadata())
        await cache.follow_logs([ORDERS])
        with pytest.raises(InvalidNameError, match="is outside 0 to"):
            await cache.follow_ledgers([ledger_id, LedgerId(impossible)])
        cache.refresh(LedgerId(impossible))
        await change(logs, ref, 5)
        await eventually(lambda: cache.snapshot.logs[ORDERS].record.last_ledger_id == 5)
        assert not cache._unwatch.keys() & {ledger_id, impossible}
