"""Watches: ledger, record, bookies; by one's own handle and by others.

A watch counts from the first read after it was set or called, so each test reads before it changes anything.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from functools import partial

from ledger.metadata.store import MetadataStore
from ledger.model import EntryId, LedgerId
from tests.helpers.metadata.drivers import B1, B2, Driver, bookie, eventually, new_metadata, on_loop


class Counter:
    """A watch that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    async def next(self, after: int) -> int:
        await eventually(lambda: self.calls > after)
        return self.calls


@on_loop
async def test_a_ledger_watch_sees_create_write_and_remove(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    for writer in (store, other):
        watch = Counter()
        unwatch = store.watch_ledger(LedgerId(5), watch)
        await store.bookies()
        await writer.create_ledger(LedgerId(5), new_metadata())
        seen = await watch.next(after=0)
        await store.read_ledger(LedgerId(5))
        await writer.write_ledger(LedgerId(5), new_metadata().closed_at(EntryId(1), 10), 0)
        seen = await watch.next(after=seen)
        await store.read_ledger(LedgerId(5))
        await writer.remove_ledger(LedgerId(5))
        await watch.next(after=seen)
        unwatch()


@on_loop
async def test_a_record_watch_sees_each_change(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    watch = Counter()
    store.watch_record("/a", watch, urgent=True)
    await store.bookies()
    await other.create_record("/a", b"")
    seen = await watch.next(after=0)
    for version in range(5):
        await store.read_record("/a")
        await other.write_record("/a", b"", version)
        seen = await watch.next(after=seen)


@on_loop
async def test_a_watch_is_called_for_its_own_key_only(driver: Driver) -> None:
    store = await driver.cluster()
    mine, others = Counter(), Counter()
    store.watch_record("/a", mine)
    store.watch_record("/a/b", others)
    store.watch_ledger(LedgerId(1), others)
    await store.create_record("/a", b"")
    await mine.next(after=0)
    assert others.calls == 0


@on_loop
async def test_watch_then_read_misses_nothing(driver: Driver) -> None:
    """A watcher that reads whenever it is called ends up with the last value."""
    store, other = await driver.cluster(), await driver.open()
    await other.create_record("/a", b"0")
    changed = asyncio.Event()
    store.watch_record("/a", changed.set, urgent=True)
    found = await store.read_record("/a")
    writes = asyncio.ensure_future(_write_all(other))
    async with asyncio.timeout(10):
        while found.version < 50:
            await changed.wait()
            changed.clear()
            found = await store.read_record("/a")
    await writes
    assert found.value == b"50"


async def _write_all(store: MetadataStore) -> None:
    for version in range(50):
        await store.write_record("/a", b"%d" % (version + 1), version)


@on_loop
async def test_a_bookie_watch_sees_coming_moving_and_going(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    watch = Counter()
    store.watch_bookies(watch)
    await store.bookies()
    registration = await other.register_bookie(bookie(B1))
    seen = await watch.next(after=0)
    await store.bookies()
    await registration.set_read_only(True)
    seen = await watch.next(after=seen)
    await store.bookies()
    await registration.close()
    seen = await watch.next(after=seen)
    await store.bookies()
    await other.register_bookie(bookie(B2))
    seen = await watch.next(after=seen)
    await store.bookies()
    await other.close()
    await watch.next(after=seen)


@on_loop
async def test_nothing_is_called_after_unwatch(driver: Driver) -> None:
    store = await driver.cluster()
    gone, there = Counter(), Counter()
    unwatch = store.watch_record("/a", gone)
    store.watch_record("/a", there)
    unwatch()
    unwatch()
    await store.create_record("/a", b"")
    await there.next(after=0)
    assert gone.calls == 0


@on_loop
async def test_many_watches_are_cheap_to_keep(driver: Driver) -> None:
    store, other = await driver.cluster(), await driver.open()
    watches = [Counter() for _ in range(2000)]
    for index, watch in enumerate(watches):
        store.watch_ledger(LedgerId(index), watch)
    await store.bookies()
    await asyncio.gather(
        *(other.create_ledger(LedgerId(index), new_metadata()) for index in range(0, 2000, 100))
    )
    await eventually(lambda: all(watches[index].calls for index in range(0, 2000, 100)))
    assert sum(watch.calls for watch in watches) == 20


@on_loop
async def test_a_watch_runs_in_the_context_in_which_it_was_set(driver: Driver) -> None:
    """As the loop's own callbacks do: whoever makes the change is somebody else."""
    whose: ContextVar[str] = ContextVar("whose", default="nobody")
    store, other = await driver.cluster(), await driver.open()
    seen: list[str] = []
    for name, watch in (
        ("of bookies", store.watch_bookies),
        ("of a record", partial(store.watch_record, "/a")),
    ):
        own = copy_context()
        own.run(whose.set, name)
        own.run(watch, lambda: seen.append(whose.get()))
    await store.bookies()
    whose.set("who changes")
    await other.create_record("/a", b"")
    await other.register_bookie(bookie(B1))
    await eventually(lambda: len(set(seen)) > 1)
    assert set(seen) == {"of bookies", "of a record"}
