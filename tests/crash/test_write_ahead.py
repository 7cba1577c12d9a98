"""Write-ahead: what a checkpoint stores is durable in the journal first."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bookie_server.errors import DiskFailedError
from dlog.testing.disk.effects import Effect
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import KEY, EntryRun, add_run, durable, make_entry, open_storage, run_of
from tests.helpers.crash.scenarios import HOME, SETTINGS
from tests.helpers.simulation.disk import new_disk, run

pytestmark = pytest.mark.usefixtures("either_storage")

SEEDS = 20


def test_a_flush_waits_until_the_journal_has_what_it_stores() -> None:
    """The add fills the write cache, so journal and checkpoint begin in one step of the loop, in any order."""

    async def main(seed: int) -> list[str]:
        disk, order = new_disk(seed, timing=DiskTiming()), list[str]()
        storage = await open_storage(HOME, disk, **SETTINGS | {"write_cache_bytes_max": 1})
        state = storage.create_ledger(1, KEY)
        await durable(storage.force)

        def note(effect: Effect) -> None:
            if effect.kind == "sync" and effect.path.suffix == ".journal":
                order.append("journal")
            elif effect.kind == "kv.write" or (effect.kind == "create" and "entry-logs" in effect.path.parts):
                order.append("checkpoint")

        disk.watch_effects(note)
        await durable(partial(add_run, storage, state, run_of(1, range(3))))
        await storage.close()
        return order

    orders = [run(main(seed)) for seed in range(SEEDS)]
    assert all("checkpoint" in order and order[0] == "journal" for order in orders)


def test_a_checkpoint_cut_off_between_entries_and_states_loses_no_lac(tmp_path: Path) -> None:
    """The index has made the entry durable on its own account; the state of its ledger was not written yet."""

    async def before() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(1, KEY)
        await durable(partial(add_run, storage, state, EntryRun([9], [make_entry(1, 9, lac=-1)])))
        await storage.checkpoint()
        await durable(partial(add_run, storage, state, EntryRun([5], [make_entry(1, 5, lac=4)])))
        index = storage._parts.index

        def cut_off(_: object) -> None:
            index.sync(index.generation())
            raise DiskFailedError("cut off", path=tmp_path, missing=False)

        index.put_states = cut_off  # type: ignore[method-assign]
        with pytest.raises(DiskFailedError, match="cut off"):
            await storage.checkpoint()
        await storage.close()

    async def after() -> tuple[list[int], int]:
        storage = await open_storage(tmp_path)
        state = storage.ledger(1)
        assert state is not None
        found = [entry_id for entry_id in range(10) if await storage.read(state, entry_id) is not None]
        await storage.close()
        return found, state.lac

    asyncio.run(before())
    assert asyncio.run(after()) == ([5, 9], 4)
