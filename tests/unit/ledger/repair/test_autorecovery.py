"""Auditor and worker on a store that is away when they start."""

from __future__ import annotations

import pytest

from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import Unwatch, Watch
from ledger.model import BookieSet
from ledger.repair.autorecovery import run_autorecovery
from ledger.repair.config import RepairConfig


async def test_a_start_that_fails_leaves_no_watch_in_the_store() -> None:
    """A bookie tries again every ten seconds, on a store that lives as long as it does."""
    store = await open_store("memory:autorecovery-start", SystemEnvironment())
    await store.init_cluster()
    watch_bookies = store.watch_bookies
    watching: list[Watch] = []

    def counted(watch: Watch) -> Unwatch:
        unwatch = watch_bookies(watch)
        watching.append(watch)

        def end() -> None:
            unwatch()
            watching.remove(watch)

        return end

    async def is_away() -> BookieSet:
        raise MetadataUnavailableError("the store is away")

    store.watch_bookies = counted  # type: ignore[method-assign]
    store.bookies = is_away  # type: ignore[method-assign]
    with pytest.raises(MetadataUnavailableError):
        await run_autorecovery(store, SystemEnvironment(), RepairConfig())
    assert watching == []
    await store.close()
