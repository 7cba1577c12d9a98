"""Write-ahead: what a checkpoint stores is durable in the journal first."""

from __future__ import annotations

from functools import partial

from dlog.testing.disk.effects import Effect
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import KEY, durable, open_storage, run_of
from tests.helpers.crash.scenarios import HOME, SETTINGS
from tests.helpers.simulation.disk import new_disk, run

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
            elif effect.kind == "create" and "entry-logs" in effect.path.parts:
                order.append("entry log")

        disk.watch_effects(note)
        await durable(partial(storage.add, state, run_of(1, range(3))))
        await storage.close()
        return order

    orders = [run(main(seed)) for seed in range(SEEDS)]
    assert all("entry log" in order and order[0] == "journal" for order in orders)
