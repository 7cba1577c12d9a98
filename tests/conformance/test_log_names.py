"""Listing logs reads many names at the same time, on every driver, and leaves no task behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from dlog.together import AT_ONCE
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError
from ledger.metadata.store import MetadataStore
from tests.helpers.metadata.drivers import Driver, eventually, on_loop

NAMES = [f"log-{number:03}" for number in range(2 * AT_ONCE)]
DELETED = NAMES[::8]


class SlowReads:
    """A store whose reads of records begin together: each waits until `together` of them are in flight."""

    def __init__(self, inner: MetadataStore, together: int) -> None:
        self._inner = inner
        self._together = together
        self._full = asyncio.Event()
        self.in_flight = self.most = 0
        self.failing: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def read_record(self, key: str, *, fresh: bool = True) -> Any:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if self.in_flight >= self._together:
            self._full.set()
        try:
            await self._full.wait()
            if self.failing is not None and key.endswith(self.failing):
                raise MetadataUnavailableError("the store is away")
            return await self._inner.read_record(key, fresh=fresh)
        finally:
            self.in_flight -= 1


async def logs_of(driver: Driver) -> MetadataStore:
    """A store with logs of `NAMES`, of which some were deleted."""
    store = await driver.cluster()
    logs = LogMetadataStore(store, SystemEnvironment())
    for name in NAMES:
        ref = await logs.create(LogName(namespace="default", name=name))
        if name in DELETED:
            await logs.end_name(ref)
    return store


@on_loop
async def test_many_names_are_read_at_the_same_time(driver: Driver) -> None:
    slow = SlowReads(await logs_of(driver), together=AT_ONCE)
    async with asyncio.timeout(10):
        names = await LogMetadataStore(slow, SystemEnvironment()).names("default")
    assert names == [name for name in NAMES if name not in DELETED]
    assert slow.most == AT_ONCE


@on_loop
async def test_a_listing_that_fails_or_is_cancelled_leaves_no_task(driver: Driver) -> None:
    store = await logs_of(driver)
    before = asyncio.all_tasks()

    failing = SlowReads(store, together=AT_ONCE)
    failing.failing = NAMES[3]
    async with asyncio.timeout(10):
        with pytest.raises(MetadataUnavailableError):
            await LogMetadataStore(failing, SystemEnvironment()).names("default")
    assert (failing.in_flight, asyncio.all_tasks() - before) == (0, set())

    held = SlowReads(store, together=2 * AT_ONCE)  # more than are read at a time, so all of them wait
    listing = asyncio.ensure_future(LogMetadataStore(held, SystemEnvironment()).names("default"))
    await eventually(lambda: held.in_flight == AT_ONCE)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert (held.in_flight, asyncio.all_tasks() - before) == (0, set())
