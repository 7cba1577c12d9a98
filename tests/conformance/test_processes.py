"""SQLite across real processes: registration and kill -9, races, fork."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from dlog.cache.metadata_cache import MetadataCache
from dlog.metadata.store import LogMetadataStore
from ledger.environment import SystemEnvironment
from ledger.errors import AlreadyExistsError
from ledger.metadata.sqlite.watches import IDLE_INTERVAL_S
from ledger.metadata.store import MetadataStore
from ledger.model import BookieSet
from tests.helpers.metadata.client_process import child, line
from tests.helpers.metadata.drivers import B1, B2, Driver, bookie, eventually, eventually_async, on_loop

SEEN_S = 2.0
"""For a busy machine. docs/storage-guarantees.md has what is measured, a tenth of it."""


@on_loop
async def test_a_killed_bookie_is_unregistered_immediately(sqlite_driver: Driver) -> None:
    """While the child lives its id is taken; after kill -9 others see it, a watch fires, the id is free."""
    store = await sqlite_driver.cluster()
    try:
        with child("register", store.uri) as process:
            assert await asyncio.to_thread(line, process) == "registered"
            assert [info.bookie_id for info in (await store.bookies()).writable] == [B1]
            with pytest.raises(AlreadyExistsError):
                await store.register_bookie(bookie(B1))
            fired = asyncio.Event()
            store.watch_bookies(fired.set)
            await store.bookies()
            process.kill()
            process.wait()
            assert await store.bookies() == BookieSet()
            await eventually(fired.is_set)
            await store.register_bookie(bookie(B1))
            assert _session_files(store) == 2
            await (await sqlite_driver.open()).register_bookie(bookie(B2))
            assert _session_files(store) == 2  # a session that begins sweeps away the dead one's file
    finally:
        await sqlite_driver.close()


@on_loop
async def test_a_killed_bookie_is_noticed_within_two_seconds(sqlite_driver: Driver) -> None:
    """By a client that reads nothing until a watch fires: no heartbeat or session has to run out."""
    assert IDLE_INTERVAL_S <= 0.1, "the pause between two polls of the watches, the most that is waited for"
    store, environment = await sqlite_driver.cluster(), SystemEnvironment()
    logs = LogMetadataStore(store, environment)
    try:
        with child("register", store.uri) as process:
            assert await asyncio.to_thread(line, process) == "registered"
            async with MetadataCache(store, logs, environment, "default") as cache:
                before = cache.snapshot
                assert before.contains_bookie(B1)
                process.kill()
                async with asyncio.timeout(SEEN_S):
                    after = await cache.wait_for_change(before)
                assert not after.contains_bookie(B1)
    finally:
        await sqlite_driver.close()


@on_loop
async def test_the_watch_of_another_process_sees_a_change(sqlite_driver: Driver) -> None:
    store = await sqlite_driver.cluster()
    try:
        fired = asyncio.Event()
        store.watch_bookies(fired.set)
        await store.bookies()
        with child("register", store.uri):
            await eventually(fired.is_set)
            await eventually_async(lambda: _has_bookie(store))
    finally:
        await sqlite_driver.close()


def _session_files(store: MetadataStore) -> int:
    return len(list(Path(store.uri.removeprefix("sqlite:///") + ".sessions").iterdir()))


async def _has_bookie(store: MetadataStore) -> bool:
    return bool((await store.bookies()).writable)


@on_loop
async def test_one_winner_for_each_version_across_processes(sqlite_driver: Driver) -> None:
    """Three processes race on one record and one of them dies by kill -9 in the middle.

    The value lists who won, one line a version. It must have as many lines as the version says, and each
    version that a process reports must carry its name: none lost, none doubled, none invented.
    """
    store = await sqlite_driver.cluster()
    try:
        await store.create_record("/race", b"start")
        with (
            child("compete", store.uri, "a", "150") as a,
            child("compete", store.uri, "b", "150") as b,
            child("compete", store.uri, "c", "100000") as c,
        ):
            for _ in range(40):
                await asyncio.to_thread(line, c)
            c.kill()
            reports = await asyncio.gather(*(asyncio.to_thread(x.communicate) for x in (a, b, c)))
        found = await store.read_record("/race")
        names = found.value.decode().split("\n")
        assert len(names) == found.version + 1
        for name, (output, _) in zip("ab", reports, strict=False):
            won = [int(version) for version in output.split()]
            assert len(won) == 150
            assert [version for version, winner in enumerate(names) if winner == name] == won
        assert names.count("c") >= 40
    finally:
        await sqlite_driver.close()


@on_loop
async def test_ids_are_unique_and_rise_across_processes(sqlite_driver: Driver) -> None:
    store = await sqlite_driver.cluster()
    try:
        with child("draw", store.uri, "100") as a, child("draw", store.uri, "100") as b:
            outputs = await asyncio.gather(*(asyncio.to_thread(x.communicate) for x in (a, b)))
        drawn = [[int(text) for text in output.split()] for output, _ in outputs]
        assert [sorted(ids) for ids in drawn] == drawn
        assert sorted(itertools.chain(*drawn)) == list(range(1, 201))
    finally:
        await sqlite_driver.close()


@on_loop
async def test_a_forked_child_may_not_use_the_handle(sqlite_driver: Driver) -> None:
    store = await sqlite_driver.cluster()
    try:
        with child("fork_and_use", store.uri) as process:
            answers = [await asyncio.to_thread(line, process) for _ in range(2)]
        assert all(each.startswith("ConfigurationError") and "forked" in each for each in answers), answers
    finally:
        await sqlite_driver.close()


@on_loop
async def test_a_forked_child_does_not_keep_its_parents_session(sqlite_driver: Driver) -> None:
    """A flock belongs to the open file that a fork shares: the child must have let go of it."""
    store = await sqlite_driver.cluster()
    try:
        with child("register_and_fork", store.uri) as process:
            assert await asyncio.to_thread(line, process) == "forked"
            assert await _has_bookie(store)
            process.kill()
            process.wait()
            assert await store.bookies() == BookieSet()
    finally:
        await sqlite_driver.close()
